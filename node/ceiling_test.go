package node_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

const noisy = "algorithm=lfl-sgdmf epsilon=1 rounds=1 contribution=all-ratings "

// An owner allows an ε of 1.2 in any 40 seconds. The client takes part in a session of 1, declines the next one, says that
// it could afford 0.5, and takes part again when the period is over. The others are in all three.
func TestCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const who = protocol.ClientID(3)
		f := newFederation(t, noisy+quick+"data="+ratings(t, 4, 12))
		f.limit = &dp.Budget{Epsilon: 100, Delta: f.simulated.Privacy.Budget.Delta, Accountant: f.simulated.Privacy.Budget.Accountant}
		limit := *f.limit
		limit.Epsilon = 1.2
		f.ceilings = map[protocol.ClientID][]node.Ceiling{who: {{Budget: limit, Period: 40 * time.Second, Name: "1.2/40s"}}}
		f.gather = 3 * time.Second
		var mu sync.Mutex
		var why []error
		f.declined = func(_ protocol.ClientID, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				why = append(why, err)
			}
		}
		m := f.join(admission.ServerPlace)
		f.joinAll()
		f.session(m, sim.Faults{})
		end := time.Now()

		f.next(1, noisy+quick)
		stop := f.startStoppable(f.client(who, f.memberships[admission.ClientPlace(who)]))
		var rest []*node.Client
		for id := range protocol.ClientID(4) {
			if id != who {
				rest = append(rest, f.client(id, f.memberships[admission.ClientPlace(id)]))
			}
		}
		none := 0
		f.mayDecline = &none
		server := f.server(m)
		wait := f.start(rest...)
		_, err := server.Run(f.ctx)
		if !errors.Is(err, node.ErrDeclined) || !strings.Contains(err.Error(), "1 of 4 (budget, affords 0.5 1), and 0 may decline") ||
			!strings.Contains(err.Error(), "affordable for 4 clients at 0.5") {
			t.Errorf("the server ends with %v", err)
		}
		f.mayDecline = nil
		f.next(2, noisy+quick)
		if _, err = f.server(m).Run(f.ctx); err != nil { // without it
			t.Fatal(err)
		}
		wait()
		stop()
		if len(why) != 2 || !strings.Contains(fmt.Sprint(why[0]), "the ceiling is 1.2/40s, and it would fit from ") {
			t.Errorf("the owner is told %v", why)
		}
		if got := f.ledgers[who].Charges(); got != 1 {
			t.Errorf("%d rounds were charged", got)
		}

		time.Sleep(time.Until(end.Add(41 * time.Second)))
		if err = f.client(who, f.memberships[admission.ClientPlace(who)]).Run(f.ctx); err != nil { // gets the end of the second
			t.Fatal(err)
		}
		f.next(3, noisy+quick)
		f.session(m, sim.Faults{})
		if got := f.ledgers[who].Charges(); got != 2 {
			t.Errorf("%d rounds were charged after the period", got)
		}
	})
}

// A ceiling counts the charges of its period: one second before the period of a charge is over the next session does not fit,
// one second after it does. Virtual time begins at midnight of 2000-01-01 UTC.
func TestCeilingPeriod(t *testing.T) {
	const period = 30 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ledger, err := store.NewLedger(store.NewMemoryLog())
		if err != nil {
			t.Fatal(err)
		}
		perUser := dp.Protection{Unit: dp.User, Relation: dp.ZeroOut}
		ledger.Protect(perUser)
		release := []protocol.Release{{Name: "x", Len: 1, L2: 1, L1: 1, LInf: 1, Scale: 1, Width: 32, Noise: protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1 / dp.GaussianMu(1, 1e-5), SamplingRate: 1, Steps: 1}}}
		job := func(id byte) *node.Job {
			budget := func(epsilon float64) dp.Budget { return dp.Budget{Epsilon: epsilon, Delta: 1e-5, Accountant: dp.Best} }
			own, limit := budget(1.01), budget(100)
			return &node.Job{Terms: &session.Terms{Session: protocol.SessionID{id}, Cohort: protocol.Cohort{Clients: 8}, Steps: protocol.Schedule{{Rounds: 1, Phase: "p", Releases: release}}},
				Budget: &own, Limit: &limit, Ceilings: []node.Ceiling{{Budget: budget(1.2), Period: period, Name: "1.2/30d"}}, Protects: perUser}
		}
		if err = job(1).Account(ledger, time.Now()); err != nil {
			t.Fatalf("the first session: %v", err)
		}
		events, err := job(1).Terms.Plans()[0].Charges()
		if err == nil {
			err = ledger.Persist(protocol.Charged{Session: protocol.SessionID{1}, Round: 1, Events: events})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			after time.Duration
			fits  bool
			says  string
		}{
			{time.Minute, false, "it would fit from 2000-01-31T00:00:01Z on"},
			{period / 2, false, "it would fit from 2000-01-31T00:00:01Z on"},
			{period - time.Second, false, "it would fit from 2000-01-31T00:00:01Z on"},
			{period + time.Second, true, ""},
			{-time.Hour, false, "it was ahead when they were made, or is behind now"}, // the clock was put back
		} {
			err := job(2).Account(ledger, began.Add(c.after))
			if c.fits != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v after the charge: %v, want it to fit: %v, with %q", c.after, err, c.fits, c.says)
			}
		}
	})
}

// A clock is wrong if it is more than five minutes, and the minute to which the aggregator's time is cut, from the aggregator's.
func TestClocksOfACeiling(t *testing.T) {
	here := time.Now()
	for _, c := range []struct {
		other, later time.Duration // the aggregator's clock at the registration, and the own clock afterwards if it is set then
		want         string
	}{
		{0, 0, ""},
		{-5 * time.Minute, 0, ""},
		{5 * time.Minute, 0, ""},
		{-7 * time.Minute, 0, "7m0s ahead of the aggregator's"},
		{7 * time.Minute, 0, "7m0s behind the aggregator's"},
		{24 * 365 * time.Hour, 0, "behind"},
	} {
		err := node.ClocksApart(here, here.Round(0).Add(c.other), here.Add(c.later))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := node.ClocksApart(here, time.Time{}, here); err != nil {
		t.Errorf("without the aggregator's time: %v", err)
	}
	if err := node.ClocksApart(here, here.Round(0), here.Add(time.Hour)); err != nil {
		t.Errorf("after an hour of both clocks: %v", err)
	}
	if err := node.ClocksApart(here, here.Round(0), here.Round(0).Add(time.Hour)); err != nil {
		t.Errorf("without a reading that goes on while the clock is set: %v", err)
	}
}
