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
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

const noisy = "algorithm=lfl-sgdmf epsilon=1 rounds=1 contribution=all-ratings "

// An owner allows an ε of 1.2 in any 40 seconds. The client takes part in a session of 1, declines the next one, says that
// it could afford 0.5, and takes part again when the period is over. The others are in all three.
func TestCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const who = protocol.ClientID(3)
		f := newVirtualFederation(t, noisy+quick+"data="+ratings(t, 8, 12))
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
		for id := range protocol.ClientID(8) {
			if id != who {
				rest = append(rest, f.client(id, f.memberships[admission.ClientPlace(id)]))
			}
		}
		none := 0
		f.mayDecline = &none
		server := f.server(m)
		wait := f.start(rest...)
		_, err := server.Run(f.ctx)
		if !errors.Is(err, session.ErrDeclined) || !strings.Contains(err.Error(), "1 of 8 (budget, affords 0.5 1), and 0 may decline") ||
			!strings.Contains(err.Error(), "affordable for 8 clients at 0.5") {
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
