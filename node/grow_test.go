package node_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// grown has the operator sign another epoch, and gives it to the aggregator.
func (f *federation) grown(more int, retire ...protocol.ClientID) {
	f.t.Helper()
	next, err := f.federation.Grow(f.operator, more, retire, f.now())
	if err != nil {
		f.t.Fatal(err)
	}
	if err = f.aggregator.Grow(next); err != nil {
		f.t.Fatal(err)
	}
	f.federation = next
}

// A federation of 4 grows to 6 while a session runs, whose model is the simulator's of 4. The next session has all 6,
// and the ledgers of the first 4 continue. Then client 1 leaves: the session after that is without it. The aggregator
// stays, or is started again between the sessions.
func TestFederationGrows(t *testing.T) {
	for name, between := range map[string]func(*federation){"aggregator stays": func(*federation) {}, "aggregator restarts": (*federation).reopen} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				settings := noisy + "rounds=2 " + quick
				f := newFederation(t, settings+"data="+ratings(t, 4, 12))
				m := f.join(admission.ServerPlace)
				var once sync.Once
				f.watch = func(e protocol.Event) {
					if e.Kind == protocol.RoundSummed {
						once.Do(func() {
							next, err := f.federation.Grow(f.operator, 2, nil, f.now())
							if err == nil {
								err = f.aggregator.Grow(next)
							}
							if err != nil || f.registry.Federation().Places() != 4 {
								t.Errorf("within a session: %d places, %v", f.registry.Federation().Places(), err)
							}
							f.federation = next
						})
					}
				}
				f.joinAll()
				f.session(m, sim.Faults{})
				f.watch = nil
				synctest.Wait()
				if got := f.registry.Federation().Places(); got != 6 {
					t.Errorf("after the session there are %d places", got)
				}
				between(f)
				f.joinAll()
				f.limit = &f.simulated.Privacy.Budget
				limit := *f.limit
				limit.Epsilon = 100
				f.limit = &limit
				f.simulated, f.public = f.experiment(settings+"data="+ratings(t, 6, 12), protocol.SessionID{1, 2, 3, 1})
				f.session(m, sim.Faults{})
				for id := range protocol.ClientID(6) {
					want := 2
					if id < 4 {
						want = 4
					}
					if got := f.ledgers[id].Charges(); got != want {
						t.Errorf("client %d was charged %d times, want %d", id, got, want)
					}
				}
				between(f)
				f.grown(0, 1)
				f.next(2, settings)
				var there []*node.Client
				for id := range protocol.ClientID(6) {
					if id != 1 {
						there = append(there, f.client(id, f.memberships[admission.ClientPlace(id)]))
					}
				}
				wait := f.start(there...)
				if _, err := f.server(m).Run(f.ctx); err != nil {
					t.Error(err)
				}
				wait()
				if got := f.ledgers[1].Charges(); got != 4 {
					t.Errorf("the client that left was charged %d times", got)
				}
			})
		})
	}
}

// A server whose session has fewer places than the federation by now ends, and says to start it again.
func TestServerOfAnEarlierEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, noisy+quick+"data="+ratings(t, 4, 12))
		m := f.join(admission.ServerPlace)
		server := f.server(m)
		f.grown(2)
		if _, err := server.Run(f.ctx); !errors.Is(err, node.ErrGrown) || errors.Is(err, session.ErrSession) {
			t.Errorf("the server ends with %v", err)
		}
	})
}
