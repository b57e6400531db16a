package client_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// waitingBench is aheadBench whose script says when the client is told to proceed.
func waitingBench(t *testing.T) *bench {
	b := aheadBench(t, secagg.DrawClient)
	b.waits = true
	return b
}

const toPrepared1 = `
	announce 1   -> work
	run          -> advertise 1
	roster 1 5   -> shares 1
	delivery 1 5 -> prepared 1`

// asked checks how often the trainer was asked to contribute, by rounds.
func (b *bench) asked(want ...uint64) {
	b.t.Helper()
	if d := cmp.Diff(want, b.trainer.asked); d != "" {
		b.t.Errorf("contributions (-want +got):\n%s", d)
	}
}

// A client that has its masked input ready says so, and neither charges its ledger nor sends the input before it is told
// to proceed. In a round that was set up ahead it is the same.
func TestPreparedClientWaits(t *testing.T) {
	b := waitingBench(t)
	b.script(toPrepared1)
	if len(b.ledger.charges) != 0 {
		t.Fatal("the ledger is charged before the client is told to proceed")
	}
	b.script(`
		proceed 1                  -> charged 1, masked-input 1 + advertise 2
		survivors 1 5 + roster 2 5 -> work
		run                        -> unmask 1 + shares 2
		announce 2 delivery 5      -> work
		run                        -> prepared 2
		survivors 2 5              -> message-ignored
		proceed 2                  -> charged 2, masked-input 2 + advertise 3`)
	b.asked(1, 2)
}

// Told to proceed twice, too early, for another round or after a restart, a client sends nothing.
func TestProceedIsHeardOnce(t *testing.T) {
	b := waitingBench(t)
	b.script(`
		proceed 1    -> message-ignored
		announce 1   -> work
		proceed 1    -> message-ignored
		run          -> advertise 1
		proceed 1    -> message-ignored
		roster 1 5   -> shares 1
		proceed 1    -> message-ignored
		delivery 1 5 -> prepared 1
		proceed 2    -> message-ignored
		delivery 1 5 -> message-ignored
		proceed 1    -> charged 1, masked-input 1 + advertise 2
		proceed 1    -> message-ignored
		proceed 2    -> message-ignored`)
	if len(b.ledger.charges) != 1 {
		t.Errorf("%d charges, want 1", len(b.ledger.charges))
	}
	b = benchOf(t, client.Config{Last: 1, NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawSum), nil }})
	b.script(`
		proceed 1         -> message-ignored
		announce 1 anew 1 -> refusal 1, plan-refused`)
}

// A plan that is announced again has the round set up anew at no cost, wherever the client was in it. The client
// computes its input once, also when the setup is given up meanwhile. The round is charged once.
func TestRoundIsSetUpAnew(t *testing.T) {
	const rest = `
		roster 1 5   -> shares 1 anew 1
		delivery 1 5 -> prepared 1 anew 1
		proceed 1    -> charged 1, masked-input 1 + advertise 2
		proceed 1    -> message-ignored`
	for name, script := range map[string]string{
		"while the client computes": `
			announce 1        -> work
			announce 1 anew 1 -> 
			run               -> advertise 1 anew 1`,
		"when it has advertised": `
			announce 1        -> work
			run               -> advertise 1
			announce 1 anew 1 -> advertise 1 anew 1`,
		"when it has shared": `
			announce 1        -> work
			run               -> advertise 1
			roster 1 5        -> shares 1
			announce 1 anew 1 -> advertise 1 anew 1`,
		"when it is prepared": toPrepared1 + `
			announce 1 anew 1 -> advertise 1 anew 1
			proceed 1         -> message-ignored`,
	} {
		t.Run(name, func(t *testing.T) {
			b := waitingBench(t)
			b.script(script)
			b.script(rest)
			b.asked(1)
			if len(b.ledger.charges) != 1 {
				t.Errorf("%d charges, want 1", len(b.ledger.charges))
			}
		})
	}
	// The setup was ahead, is given up twice, and has answers that are work.
	b := heavyAheadBench(t, protocol.Kinds)
	b.script(`
		announce 1                 -> work
		run                        -> advertise 1
		roster 1 5                 -> work
		run                        -> shares 1
		delivery 1 5               -> work
		run                        -> charged 1, masked-input 1 + advertise 2
		survivors 1 5 + roster 2 5 -> work
		run                        -> consistency 1
		quorum 1                   -> work
		run                        -> unmask 1 + shares 2`)
	b.waits = true
	b.script(`
		announce 2 delivery 5      -> work
		run                        -> work
		announce 2 anew 1          -> advertise 2 anew 1
		run                        -> 
		roster 2 5                 -> work
		run                        -> shares 2 anew 1
		delivery 2 5               -> work
		run                        -> prepared 2 anew 1
		announce 2 anew 2          -> advertise 2 anew 2
		roster 2 5                 -> work
		run                        -> shares 2 anew 2
		delivery 2 5               -> work
		run                        -> prepared 2 anew 2
		proceed 2                  -> charged 2, masked-input 2 + advertise 3`)
	b.asked(1, 2)
}

// A round that is set up anew has the inputs of the setup before.
func TestRoundAnewHasTheSameInputs(t *testing.T) {
	b := benchOf(t, client.Config{NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawSum), nil }})
	b.waits = true
	b.script(toPrepared1)
	b.trainer.vectors = nil // what it would contribute now
	b.script(`
		announce 1 anew 1 -> advertise 1 anew 1
		roster 1 5        -> shares 1 anew 1
		delivery 1 5      -> prepared 1 anew 1
		proceed 1         -> charged 1, masked-input 1`)
	p := b.plan(1)
	got := make([]int64, p.Releases[0].Len)
	b.last.Send[0].Message.(*protocol.MaskedInput).Vectors[0].AddTo(got)
	want := make([]int64, len(got))
	want[2] = int64(p.Releases[0].Scale) // of a one at coordinate 2
	if !cmp.Equal(got, want) {
		t.Errorf("the input is %v, want %v", got, want)
	}
}

// A client refuses a repeated plan if its ledger was charged for the round, another plan for the
// same round, and a plan that was said twice. It also refuses a repeated plan with a delivery of a
// setup that it does not have. The round in progress continues.
func TestRoundIsNotSetUpAnew(t *testing.T) {
	b := waitingBench(t)
	b.script(toPrepared1)
	b.script(`
		announce 1                   -> plan-refused
		announce 1 delivery 5        -> plan-refused`)
	plan := b.plan
	b.plan = func(round uint64) *protocol.Plan {
		p := plan(round)
		p.Broadcast = []byte("another model")
		return p
	}
	b.script(`announce 1 anew 1 -> plan-refused`)
	b.plan = plan
	if got := describe(t, b.receive(&protocol.Announce{Plan: b.plan(1), Anew: 1, Delivery: &protocol.Delivery{Round: 1, Clients: 5}})); got != "message-ignored" {
		t.Errorf("a delivery of no setup: %s", got)
	}
	b.script(`
		announce 1 anew 2            -> advertise 1 anew 2
		announce 1 anew 1            -> plan-refused
		announce 1 anew 2            -> plan-refused
		roster 1 5                   -> shares 1 anew 2
		delivery 1 5                 -> prepared 1 anew 2
		proceed 1                    -> charged 1, masked-input 1 + advertise 2
		announce 1 anew 3            -> plan-refused
		survivors 1 5 + roster 2 5   -> work
		announce 1 anew 4            -> plan-refused
		run                          -> unmask 1 + shares 2`)
	b.asked(1)
}

// A client that had to leave a setup, or that sat the round out, takes part in the next setup of the round.
func TestClientComesBackIntoARoundAnew(t *testing.T) {
	b := waitingBench(t)
	b.script(`
		announce 1        -> work
		run               -> advertise 1
		roster 1 5        -> shares 1
		delivery 1 1      -> plan-refused
		announce 1 anew 1 -> work
		run               -> advertise 1 anew 1`)
	b = waitingBench(t)
	b.script(`
		invite 2          -> advertise 2 ahead
		announce 1        -> refusal 1, plan-refused
		announce 1 anew 1 -> work
		run               -> advertise 1 anew 1
		roster 1 5        -> shares 1 anew 1
		delivery 1 5      -> prepared 1 anew 1
		proceed 1         -> charged 1, masked-input 1 + advertise 2`)
}

// A party that noises its own training is charged as it takes the plan up, and does not take it up again.
func TestRoundOfOwnNoiseIsNotSetUpAnew(t *testing.T) {
	b := waitingBench(t)
	b.plan = ownPlan
	b.script(`
		announce 1        -> charged 1, work
		announce 1 anew 1 -> plan-refused
		run               -> advertise 1
		announce 1 anew 1 -> plan-refused`)
	b.asked(1)
}

// A ledger that refuses the charge keeps the masked input here.
func TestRefusedChargeSendsNothing(t *testing.T) {
	b := waitingBench(t)
	b.script(toPrepared1)
	b.ledger.left = 0
	b.script(`
		proceed 1 -> plan-refused
		proceed 1 -> message-ignored`)
}
