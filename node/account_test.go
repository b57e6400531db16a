package node

import (
	"errors"
	"testing"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// priced returns a job of a session whose steps have so many rounds and such noise, under a ceiling of a day.
func priced(ceiling float64, steps ...protocol.Step) *Job {
	terms := nodetest.Terms()
	terms.Session, terms.Steps = protocol.SessionID{7}, steps
	budget := dp.Budget{Epsilon: 100, Delta: 1e-5, Accountant: dp.RDP}
	within := budget
	within.Epsilon = ceiling
	return &Job{Terms: &terms, Budget: &budget, Limit: &budget, Protects: dp.Protection{Unit: dp.User, Relation: dp.ZeroOut},
		Ceilings: []Ceiling{{Budget: within, Period: 24 * time.Hour, Name: "a day's"}}}
}

// noisyStep is rounds of one number of a client, which is at most 1,000.
func noisyStep(rounds int, variance float64) protocol.Step {
	return protocol.Step{Rounds: rounds, Phase: "test", Releases: []protocol.Release{{Name: "a", Len: 1, L2: 1, MaxNonZero: 1, Scale: 1000, Width: 40,
		Noise: protocol.Noise{Kind: protocol.Split, Variance: variance}}}}
}

// A server that lies describes one session twice. The first description has four rounds, and all are charged. The second
// has almost free rounds in their place, and four more of the same cost. Four cost an ε of 1.159, and eight 1.695, by
// the Rényi bound of the Skellam mechanism (Agarwal, Kairouz and Liu 2021, corollary 1) at the orders up to 2,000. A ceiling of 1.2 holds for all that was charged.
func TestCeilingOfASessionWithOtherTerms(t *testing.T) {
	const variance = 5e7
	first := priced(1.2, noisyStep(4, variance))
	durable, err := store.NewLedger(store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	charge := func(job *Job, rounds ...uint64) {
		t.Helper()
		l, failed := job.account(durable, nil, time.Now())
		if failed != nil {
			t.Fatalf("before round %d: %v", rounds[0], failed)
		}
		events, failed := job.Terms.Plans()[0].Charges()
		for _, i := range rounds {
			if failed == nil {
				failed = l.Charge(job.Terms.Session, i, events)
			}
			if failed == nil {
				failed = durable.Persist(protocol.Charged{Session: job.Terms.Session, Round: i, Events: events})
			}
		}
		if failed != nil {
			t.Fatal(failed)
		}
	}
	charge(first, 1, 2)
	charge(first, 3, 4) // a start again costs nothing
	if _, err = first.account(durable, nil, time.Now()); err != nil {
		t.Errorf("a session of which no round is left: %v", err)
	}
	second := priced(1.2, noisyStep(4, 1e6*variance), noisyStep(4, variance))
	if _, err = second.account(durable, nil, time.Now()); !isOverspend(err) {
		t.Errorf("the same session with other terms: %v", err)
	}
	if _, err = second.account(durable, nil, time.Now().Add(25*time.Hour)); err != nil {
		t.Errorf("a day later: %v", err)
	}
}

func isOverspend(err error) bool {
	_, ok := errors.AsType[*dp.OverspendError](err)
	return ok
}
