package node_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// A ledger that was charged for ratings takes no charge about users. The client ends
// before anything of the session leaves, and says why.
func TestLedgersAreNotMixed(t *testing.T) {
	for name, c := range map[string]struct {
		before  dp.Protection
		refused bool
	}{
		"ratings before":   {dp.Protection{Unit: dp.Rating, Relation: dp.AddRemove}, true},
		"users, otherwise": {dp.Protection{Unit: dp.User, Relation: dp.AddRemove}, true},
		"the same":         {dp.Protection{Unit: dp.User, Relation: dp.ZeroOut}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFederation(t, "contribution=all-ratings rounds=1 tolerance=0.25 colluders=0.2 data="+ratings(t, 4, 12))
			ledger, err := store.NewLedger(store.NewMemoryLog())
			if err != nil {
				t.Fatal(err)
			}
			ledger.Protect(c.before)
			tiny := []dp.Event{dp.Skellam(1e9, 1, 1)}
			if err = ledger.Persist(protocol.Charged{Session: protocol.SessionID{9}, Round: 1, Events: tiny}); err != nil {
				t.Fatal(err)
			}
			f.ledgers[0] = ledger
			ctx, cancel := context.WithCancel(f.ctx)
			var others sync.WaitGroup
			defer others.Wait() // they write to the test's folder
			defer cancel()
			declined := make(chan error, 1)
			f.declined = func(id protocol.ClientID, why error) {
				if id == 0 && why != nil {
					select {
					case declined <- why:
					default:
					}
					cancel() // it would await the next session
				}
			}
			all := f.joinAll()
			for _, other := range all[1:] {
				others.Go(func() { _ = other.Run(ctx) }) // it is stopped
			}
			server := f.server(f.join(admission.ServerPlace))
			others.Go(func() { _, _ = server.Run(ctx) }) // so is it
			err = all[0].Run(ctx)
			select {
			case err = <-declined:
			default:
			}
			if c.refused != errors.Is(err, dp.ErrMixed) {
				t.Errorf("the client declines or ends with %v", err)
			}
		})
	}
}
