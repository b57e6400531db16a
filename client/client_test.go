package client_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

const round1 = `
	announce 1    -> work
	run           -> advertise 1
	roster 1 5    -> shares 1
	delivery 1 5  -> charged 1, masked-input 1
	survivors 1 4 -> work
	run           -> unmask 1`

func TestRound(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.script(round1)
	b.script(`
		announce 2    -> work
		run           -> advertise 2
		roster 2 3    -> shares 2
		delivery 2 3  -> charged 2, masked-input 2
		survivors 2 3 -> work
		run           -> unmask 2
		final M       -> work
		run           -> session-ended`)
	if d := cmp.Diff([]uint64{1, 2}, b.trainer.asked); d != "" {
		t.Errorf("contributions (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"M"}, b.trainer.finished); d != "" {
		t.Errorf("models (-want +got):\n%s", d)
	}
}

// Where the sum draws the noise, the client has nothing to take back and
// answers at once; what it sends is its own integers: 1·10 at coordinate 2.
func TestRoundOfASumThatDrawsNoise(t *testing.T) {
	b := newBench(t, secagg.DrawSum)
	b.script(`
		announce 1    -> work
		run           -> advertise 1
		roster 1 5    -> shares 1
		delivery 1 5  -> charged 1, masked-input 1`)
	want := &protocol.MaskedInput{Round: 1, Vectors: []protocol.Integers{{Index: []uint32{2}, Narrow: []int32{10}}}, Packed: 16}
	if d := cmp.Diff(want, b.last.Send[0].Message); d != "" {
		t.Errorf("masked input (-want +got):\n%s", d)
	}
	b.script(`survivors 1 4 -> unmask 1`)
	if m := b.last.Send[0].Message.(*protocol.Unmask); m.Round != 1 || m.Removals != nil {
		t.Errorf("unmask %+v, want no removals", m)
	}
}

// The charge equals the cost of the plan (one Skellam release of the target variance). It is on the
// ledger before the masked input is handed out, and there is one per round.
func TestChargesBeforeSending(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	events := []dp.Event{{Mechanism: dp.SkellamMechanism, Variance: 60, L2: 11, L1: 22, Count: 1}}
	b.script(`
		announce 1 -> work
		run        -> advertise 1
		roster 1 5 -> shares 1`)
	if len(b.ledger.charges) != 0 {
		t.Errorf("charged before anything is sent: %+v", b.ledger.charges)
	}
	b.script(`delivery 1 5 -> charged 1, masked-input 1`)
	if d := cmp.Diff([]charge{{session, 1, events}}, b.ledger.charges); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]protocol.Record{protocol.Charged{Session: session, Round: 1, Events: events}}, b.last.Persist); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
	b.script(`
		delivery 1 5  -> message-ignored
		survivors 1 5 -> work
		delivery 1 5  -> message-ignored
		run           -> unmask 1
		delivery 1 5  -> message-ignored`)
	if len(b.ledger.charges) != 1 {
		t.Errorf("%d charges of one round: %+v", len(b.ledger.charges), b.ledger.charges)
	}
}

// A charge is kept even if the aggregator never asks for the rest of the round.
func TestAbandonedRoundStaysCharged(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.script(`
		announce 1   -> work
		run          -> advertise 1
		roster 1 5   -> shares 1
		delivery 1 5 -> charged 1, masked-input 1
		announce 2   -> work
		run          -> advertise 2
		roster 2 5   -> shares 2
		delivery 2 5 -> charged 2, masked-input 2`)
	if len(b.ledger.charges) != 2 {
		t.Errorf("%d charges, want 2", len(b.ledger.charges))
	}
}

func TestOverBudget(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.ledger.left = 1
	b.script(round1)
	b.script(`
		announce 2   -> work
		run          -> advertise 2
		roster 2 5   -> shares 2
		delivery 2 5 -> plan-refused`)
	if !errors.Is(b.err(), errSpent) {
		t.Errorf("refused for %v, want the ledger's reason", b.err())
	}
	b.script(`
		delivery 2 5  -> message-ignored
		survivors 2 5 -> message-ignored`)
}

// With a ledger a client takes part in nothing that is released exactly.
func TestPlanWithoutNoise(t *testing.T) {
	exact := func(i uint64) *protocol.Plan {
		p := newPlan(i)
		p.Releases = append(p.Releases, p.Releases[0])
		p.Releases[1].Name, p.Releases[1].Noise = "exact", protocol.Noise{}
		return p
	}
	b := newBench(t, secagg.DrawClient)
	b.plan, b.trainer.vectors = exact, append(b.trainer.vectors, b.trainer.vectors...)
	b.script(`
		announce 1   -> refusal 1, plan-refused
		roster 1 5   -> message-ignored
		delivery 1 5 -> message-ignored`)
	b.command("announce 2")
	if !errors.Is(b.err(), protocol.ErrUnprotected) || len(b.ledger.charges) != 0 {
		t.Errorf("refused for %v after %d charges, want ErrUnprotected and none", b.err(), len(b.ledger.charges))
	}
}

// Without a ledger it takes part, exactly, and records only that the round
// is used up.
func TestNoLedger(t *testing.T) {
	tr := &trainer{vectors: []protocol.Vector{{Index: []uint32{2}, Value: []float64{1}}}}
	b := &bench{t: t, trainer: tr, plan: func(i uint64) *protocol.Plan {
		p := newPlan(i)
		p.Releases[0].Noise = protocol.Noise{}
		return p
	}}
	b.client = client.New(client.Config{ID: 3, Session: session, Trainer: tr, Noise: new(client.Samplers), Entropy: someEntropy,
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawClient), nil }})
	b.script(`
		announce 1   -> work
		run          -> advertise 1
		roster 1 5   -> shares 1
		delivery 1 5 -> charged 1, masked-input 1`)
	if record := b.last.Persist[0].(protocol.Charged); len(record.Events) != 0 {
		t.Errorf("the record charges %v without a ledger", record.Events)
	}
	want := []protocol.Integers{{Index: []uint32{2}, Narrow: []int32{10}}}
	if d := cmp.Diff(want, b.last.Send[0].Message.(*protocol.MaskedInput).Vectors); d != "" {
		t.Errorf("vectors (-want +got):\n%s", d)
	}
	b.script(`survivors 1 5 -> unmask 1`)
}

// asksOthers makes a plan one of the first round from 6 on that asks 5 of 50 clients and not the bench's. Nothing else is wrong with it.
func asksOthers(p *protocol.Plan) {
	p.Cohort = protocol.Cohort{Clients: 5, Goal: 5, Enrolled: 50}
	for p.Setup().Chooses(3) {
		p.Round++
	}
	if err := p.Validate(); err != nil {
		panic(err)
	}
}

// A client refuses these plans, and they have no effect.
func TestRefusesPlans(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*protocol.Plan)
	}{
		{"the round again", func(p *protocol.Plan) { p.Round = 5 }},
		{"an older round", func(p *protocol.Plan) { p.Round = 4 }},
		{"another session", func(p *protocol.Plan) { p.Session[0]++ }},
		{"no session", func(p *protocol.Plan) { p.Session = protocol.SessionID{} }},
		{"round 0", func(p *protocol.Plan) { p.Round = 0 }},
		{"nobody honest", func(p *protocol.Plan) { p.Cohort.Colluders = 0.6 }},
		{"no variance", func(p *protocol.Plan) { p.Releases[0].Noise.Variance = 0 }},
		{"nothing released", func(p *protocol.Plan) { p.Releases = nil }},
		{"not its turn", asksOthers},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, secagg.DrawClient)
			b.script(`
				announce 5    -> work
				run           -> advertise 5
				roster 5 5    -> shares 5
				delivery 5 5  -> charged 5, masked-input 5
				survivors 5 5 -> work
				run           -> unmask 5`)
			b.plan = func(i uint64) *protocol.Plan {
				p := newPlan(i)
				c.change(p)
				return p
			}
			it := b.plan(6).Round
			b.script(fmt.Sprintf("announce 6 -> refusal %d, plan-refused", it))
			b.receive(&protocol.Roster{Round: it, Clients: 5})
			if got := describe(t, b.last); got != "message-ignored" {
				t.Errorf("the roster of a refused plan: %s", got)
			}
			if len(b.trainer.asked) != 1 {
				t.Errorf("the trainer was asked for %v", b.trainer.asked)
			}
			b.plan = newPlan
			b.script(`announce 7 -> work`)
		})
	}
}

// A plan that is refused leaves the round in progress alone: announcements
// arrive twice and out of order, and an attacker may replay them.
func TestRefusedPlanLeavesTheRound(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.script(`
		announce 2    -> work
		announce 2    -> plan-refused
		run           -> advertise 2
		announce 1    -> refusal 1, plan-refused
		roster 2 5    -> shares 2
		announce 2    -> plan-refused
		delivery 2 5  -> charged 2, masked-input 2
		announce 2    -> plan-refused
		survivors 2 5 -> work
		announce 1    -> refusal 1, plan-refused
		run           -> unmask 2`)
}

func TestTooFewSharers(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.script(`
		announce 1   -> work
		run          -> advertise 1
		roster 1 5   -> shares 1
		delivery 1 2 -> plan-refused`)
	checkTooFew(t, b.err(), protocol.StageShare, 2)
	if len(b.ledger.charges) != 0 {
		t.Errorf("%d charges, want none", len(b.ledger.charges))
	}
	b.script(`delivery 1 5 -> message-ignored`)
}

// Fewer survivors than 3 of 5 leave less noise than was charged; more than N
// would have the client take too much of its noise back.
func TestWrongSurvivors(t *testing.T) {
	for _, count := range []int{-1, 0, 1, 2, 6, math.MaxInt} {
		b := newBench(t, secagg.DrawClient)
		b.script(`
			announce 1   -> work
			run          -> advertise 1
			roster 1 5   -> shares 1
			delivery 1 5 -> charged 1, masked-input 1`)
		b.receive(&protocol.Survivors{Round: 1, Count: count})
		if got := describe(t, b.last); got != "plan-refused" {
			t.Errorf("%d survivors: %s, want plan-refused", count, got)
			continue
		}
		if count < 3 {
			checkTooFew(t, b.err(), protocol.StageMaskedInput, count)
		}
		b.script(`survivors 1 5 -> message-ignored`)
	}
}

func checkTooFew(t *testing.T, err error, stage protocol.Stage, left int) {
	t.Helper()
	var few *protocol.TooFew
	if !errors.As(err, &few) {
		t.Fatalf("refused for %v, want TooFew", err)
	}
	if d := cmp.Diff(&protocol.TooFew{Round: 1, Stage: stage, Left: left, Required: 3}, few); d != "" {
		t.Errorf("reason (-want +got):\n%s", d)
	}
}

// The survivors are a part of the clients whose shares arrived. More survivors would leave less
// noise than was charged, and the client can see the lie.
func TestMoreSurvivorsThanSharers(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.script(`
		announce 1    -> work
		run           -> advertise 1
		roster 1 5    -> shares 1
		delivery 1 3  -> charged 1, masked-input 1
		survivors 1 5 -> plan-refused`)
}

// The first number of survivors is the only one: another answer, thinned to
// another number, would let the aggregator average noise away.
func TestSecondSurvivors(t *testing.T) {
	for _, draw := range []secagg.Draw{secagg.DrawClient, secagg.DrawSum} {
		b := newBench(t, draw)
		b.script(`
			announce 1   -> work
			run          -> advertise 1
			roster 1 5   -> shares 1
			delivery 1 5 -> charged 1, masked-input 1`)
		if draw == secagg.DrawClient {
			b.script(`
				survivors 1 4 -> work
				survivors 1 5 -> message-ignored
				survivors 1 4 -> message-ignored
				run           -> unmask 1`)
		} else {
			b.script(`survivors 1 4 -> unmask 1`)
		}
		b.script(`
			survivors 1 5 -> message-ignored
			survivors 1 4 -> message-ignored`)
	}
}

// Every opening of a stage, before and after its time.
func TestOutOfOrder(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.script(`
		roster 1 5    -> message-ignored
		delivery 1 5  -> message-ignored
		survivors 1 5 -> message-ignored
		announce 1    -> work
		roster 1 5    -> message-ignored
		delivery 1 5  -> message-ignored
		survivors 1 5 -> message-ignored
		run           -> advertise 1
		delivery 1 5  -> message-ignored
		survivors 1 5 -> message-ignored
		roster 2 5    -> message-ignored
		roster 1 5    -> shares 1
		roster 1 5    -> message-ignored
		survivors 1 5 -> message-ignored
		delivery 0 5  -> message-ignored
		delivery 2 5  -> message-ignored
		delivery 1 5  -> charged 1, masked-input 1
		roster 1 5    -> message-ignored
		delivery 1 5  -> message-ignored
		survivors 2 5 -> message-ignored
		survivors 1 5 -> work
		roster 1 5    -> message-ignored
		delivery 1 5  -> message-ignored
		run           -> unmask 1
		roster 1 5    -> message-ignored
		delivery 1 5  -> message-ignored
		survivors 1 5 -> message-ignored`)
}

// Messages that are none of a client's business.
func TestMessagesOfOthers(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	for _, m := range []protocol.Message{
		&protocol.Open{Plan: newPlan(1)}, &protocol.Advertise{}, &protocol.Shares{}, &protocol.MaskedInput{}, &protocol.Unmask{},
		&protocol.Result{}, &protocol.Abort{},
	} {
		if got := describe(t, b.receive(m)); got != "message-ignored" {
			t.Errorf("%s: %s, want message-ignored", m.Kind(), got)
		}
	}
	if got := describe(t, b.step(protocol.Tick{})) + describe(t, b.step(protocol.Start{})); got != "" {
		t.Errorf("tick and start: %s, want nothing", got)
	}
}

// A client hears the aggregator only: another client must not be able to end
// its session, or to have it take up a plan.
func TestMessagesFromOthers(t *testing.T) {
	for _, from := range []protocol.Party{protocol.ClientParty(4), protocol.ClientParty(3)} {
		for _, m := range []protocol.Message{&protocol.Announce{Plan: newPlan(1)}, &protocol.Final{Model: []byte("M")}} {
			b := newBench(t, secagg.DrawClient)
			eff := b.step(protocol.Received{Envelope: protocol.Envelope{From: from, To: protocol.ClientParty(3), Message: m}})
			if got := describe(t, eff); got != "message-ignored" {
				t.Errorf("%s from %s: %s, want message-ignored", m.Kind(), from, got)
			}
		}
	}
}

// Step promises not to panic on what a peer sent.
func TestEmptyMessages(t *testing.T) {
	for name, m := range map[string]protocol.Message{"no message": nil, "announce without a plan": &protocol.Announce{}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("panic: %v", r)
				}
			}()
			b := newBench(t, secagg.DrawClient)
			if eff := b.receive(m); len(eff.Events) != 1 || len(eff.Send)+len(eff.Work)+len(eff.Persist) != 0 {
				t.Errorf("%+v, want one event", eff)
			}
		})
	}
}

// A round announced in mid-round ends the previous round. The work of that round is dropped
// whenever it comes back.
func TestRoundLeftBehind(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.script(`
		announce 1    -> work
		announce 2    -> work
		run           ->
		run           -> advertise 2
		roster 1 5    -> message-ignored
		roster 2 5    -> shares 2
		delivery 2 5  -> charged 2, masked-input 2
		survivors 2 5 -> work
		announce 4    -> work
		run           ->
		survivors 2 5 -> message-ignored
		run           -> advertise 4`)
	if d := cmp.Diff([]uint64{1, 2, 4}, b.trainer.asked); d != "" {
		t.Errorf("contributions (-want +got):\n%s", d)
	}
}

func TestFinal(t *testing.T) {
	for _, before := range []string{"", `announce 1 -> work`, round1} {
		b := newBench(t, secagg.DrawClient)
		if before != "" {
			b.script(before)
		}
		stale := len(b.works)
		b.script(`
			final M       -> work
			final N       -> message-ignored
			announce 9    -> plan-refused
			roster 1 5    -> message-ignored
			survivors 1 5 -> message-ignored`)
		for range stale {
			b.script(`run ->`)
		}
		b.script(`run -> session-ended`)
		if d := cmp.Diff([]string{"M"}, b.trainer.finished); d != "" {
			t.Errorf("models (-want +got):\n%s", d)
		}
	}
}

func TestFinishFails(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.trainer.err = errors.New("no such model")
	b.script(`
		final M -> work
		run     -> work-failed`)
	if !errors.Is(b.err(), b.trainer.err) {
		t.Errorf("failed for %v, want the trainer's reason", b.err())
	}
}

// A plan that is not what the owner agreed to is not taken up, and costs nothing.
func TestNotAgreed(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	other := errors.New("less noise than was agreed")
	b.client = client.New(client.Config{ID: 3, Session: session, Trainer: b.trainer, Ledger: b.ledger, Noise: new(client.Samplers), Entropy: someEntropy,
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawClient), nil },
		Agreed: func(p *protocol.Plan) error {
			if p.Round == 1 {
				return other
			}
			return nil
		}})
	b.script(`announce 1 -> refusal 1, plan-refused`)
	if !errors.Is(b.err(), other) || len(b.ledger.charges) != 0 || len(b.trainer.asked) != 0 {
		t.Errorf("refused for %v, after %d charges and %d contributions", b.err(), len(b.ledger.charges), len(b.trainer.asked))
	}
	b.script(`announce 2 -> work`)
}
