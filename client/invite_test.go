package client_test

import (
	"errors"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// A client that a round is without is set up for the next by messages of its own.
func TestInvited(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(`
		invite 3                   -> advertise 3 ahead
		announce 3 delivery 5      -> message-ignored
		roster 3 5                 -> shares 3 ahead
		roster 3 5                 -> message-ignored
		delivery 3 5               -> message-ignored
		announce 3 delivery 5      -> work
		run                        -> charged 3, masked-input 3 + advertise 4
		survivors 3 4 + roster 4 5 -> work
		run                        -> unmask 3 + shares 4`)
	b = heavyAheadBench(t, protocol.Kinds)
	b.script(`
		invite 3              -> advertise 3 ahead
		roster 3 5            -> work
		roster 3 5            -> message-ignored
		announce 3 delivery 5 -> message-ignored
		run                   -> shares 3 ahead
		announce 3 delivery 5 -> work`)
}

// A client that did not get so far begins a plan anew, with other keys.
func TestInvitedInVain(t *testing.T) {
	for _, script := range []string{`invite 3 -> advertise 3 ahead`, `
		invite 3   -> advertise 3 ahead
		roster 3 5 -> shares 3 ahead`} {
		b := aheadBench(t, secagg.DrawClient)
		b.script(script)
		b.script(`
			announce 3 -> work
			run        -> advertise 3
			roster 3 5 -> shares 3`)
		b = aheadBench(t, secagg.DrawClient)
		b.script(script)
		b.script(`
			invite 4   -> advertise 4 ahead
			roster 3 5 -> message-ignored
			roster 4 5 -> shares 4 ahead`)
	}
}

// Invitations that are forged, replayed or late. The aggregator can keep a client
// out by inviting it to a round far off, as it can by telling it nothing.
func TestInvitations(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(`
		invite 0   -> message-ignored
		invite 5   -> message-ignored
		announce 1 -> work
		invite 1   -> message-ignored
		invite 2   -> message-ignored
		run        -> advertise 1
		invite 2   -> message-ignored
		roster 1 5 -> shares 1
		invite 3   -> advertise 3 ahead
		delivery 1 5 -> message-ignored
		invite 3   -> message-ignored
		invite 2   -> message-ignored
		announce 2 -> refusal 2, plan-refused
		roster 3 5 -> shares 3 ahead
		invite 3   -> message-ignored
		invite 4   -> advertise 4 ahead
		announce 3 -> refusal 3, plan-refused
		announce 3 delivery 5 -> refusal 3, plan-refused
		roster 4 5 -> shares 4 ahead
		announce 4 delivery 5 -> work
		invite 4   -> message-ignored`)
	if len(b.ledger.charges) != 0 {
		t.Errorf("%d charges for setups", len(b.ledger.charges))
	}
	b = aheadBench(t, secagg.DrawClient)
	b.plan = func(i uint64) *protocol.Plan {
		p := newPlan(i)
		p.Session[3]++
		return p
	}
	b.script(`invite 2 -> message-ignored`)
	b = newBench(t, secagg.DrawClient) // which sets up nothing ahead
	b.script(`invite 2 -> message-ignored`)
}

// A setup that the sum will have nothing to do with leaves what is under way.
func TestInvitationRefused(t *testing.T) {
	refuse := false
	b := benchOf(t, client.Config{Rounds: 9, NewSum: func(s protocol.Setup) (client.Sum, error) {
		if refuse {
			return nil, errLie
		}
		return secagg.NewIdealClient(s, secagg.DrawClient), nil
	}})
	b.script(toInput1)
	refuse = true
	b.script(`invite 3 -> plan-refused`)
	if !errors.Is(b.err(), errLie) {
		t.Errorf("refused for %v, want the sum's reason", b.err())
	}
	refuse = false
	b.script(`
		survivors 1 5 + roster 2 5 -> work
		run                        -> unmask 1 + shares 2`)
}

// An invitation overtakes a round: the client leaves the round, and the work under way for it.
func TestInvitedInMidRound(t *testing.T) {
	b := heavyAheadBench(t, protocol.Kinds)
	b.script(`
		announce 1   -> work
		run          -> advertise 1
		roster 1 5   -> work
		run          -> shares 1
		delivery 1 5 -> work
		invite 3     -> advertise 3 ahead
		roster 3 5   -> work
		run          ->
		run          -> shares 3 ahead`)
	if len(b.ledger.charges) != 0 {
		t.Errorf("%d charges, of a masked input that never left", len(b.ledger.charges))
	}
}
