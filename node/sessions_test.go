package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// firstSession is the first session of a federation.
var firstSession = protocol.SessionID{1, 2, 3}

// states is where the server keeps the checkpoints of the session: the first one's are
// beside everything else.
func (f *federation) states() string {
	f.t.Helper()
	if f.public.Session == firstSession {
		return f.dir
	}
	dir := filepath.Join(f.dir, fmt.Sprintf("session-%x", f.public.Session))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	return dir
}

// next has the federation continue to another session, of an experiment on the same data.
func (f *federation) next(number byte, settings string) {
	f.t.Helper()
	f.simulated, f.public = f.experiment(settings+" data="+algorithm.Data.Of(f.simulated.Config), protocol.SessionID{1, 2, 3, number})
}

// keeping are the sessions of which a client kept what it has, in order.
type keeping struct {
	mu   sync.Mutex
	kept map[protocol.ClientID][]protocol.SessionID
}

func (f *federation) keeps() *keeping {
	k := &keeping{kept: make(map[protocol.ClientID][]protocol.SessionID)}
	f.kept = func(id protocol.ClientID, s protocol.SessionID) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.kept[id] = append(k.kept[id], s)
	}
	return k
}

func (k *keeping) of(id protocol.ClientID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprint(k.kept[id])
}

// loses are faults of the simulator that lose one client in the first round, before
// it says a word, and which one.
func loses(t *testing.T, clients int) (one protocol.ClientID, f sim.Faults) {
	t.Helper()
	f = sim.Faults{Stages: []protocol.Stage{protocol.StageAdvertise}}
	for f.Dropout = 0.01; f.Dropout < 1; f.Dropout += 0.01 {
		var lost []protocol.ClientID
		for id := range protocol.ClientID(clients) {
			if fate(t, f, id, 1) < protocol.Stages {
				lost = append(lost, id)
			}
		}
		if len(lost) == 1 {
			return lost[0], f
		}
	}
	t.Fatal("the simulator loses nobody alone")
	return 0, f
}

// session leads a session to its end with all clients except the away ones, and wants the
// simulator's model. The clients are started before the server is.
func (f *federation) session(server *admission.Membership, faults sim.Faults, away ...protocol.ClientID) {
	f.t.Helper()
	var there []*node.Client
	for id := range protocol.ClientID(f.federation.Places()) {
		if !slices.Contains(away, id) {
			there = append(there, f.client(id, f.memberships[admission.ClientPlace(id)]))
		}
	}
	wait := f.start(there...)
	f.leads(server, faults)
	wait()
}

// leads has the server lead a session to its end.
func (f *federation) leads(server *admission.Membership, faults sim.Faults) {
	f.t.Helper()
	out, err := f.server(server).Run(f.ctx)
	if err != nil {
		f.t.Fatalf("session %x: %v", f.public.Session[:4], err)
	}
	want := f.simulate(faults)
	if !bytes.Equal(out.Model, want.Model) {
		f.t.Errorf("session %x: the model is\n%x, the simulator's\n%x", f.public.Session[:4], out.Model, want.Model)
	}
	if n := uint64(len(want.Rounds)); out.Attempts.Opened != n || out.Attempts.Released != n {
		f.t.Errorf("session %x: attempts %+v, want %d of %d", f.public.Session[:4], out.Attempts, n, n)
	}
}

const quick = "tolerance=0.25 deployment.stage-timeout-s=6 "

// Three sessions have another experiment in each, and one client sleeps through the second. All
// models are the simulator's to the bit, and no party takes a session for another. The aggregator
// lives through all of them or is started again between them. The client that slept has the end of
// that session first.
func TestSessionsFollowOneAnother(t *testing.T) {
	for name, between := range map[string]func(*federation){"aggregator stays": func(*federation) {}, "aggregator restarts": (*federation).reopen} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFederation(t, "algorithm=fmf-lfl rounds=2 "+quick+"data="+ratings(t, 5, 12))
				f.gather = 3 * time.Second
				kept := f.keeps()
				m := f.join(admission.ServerPlace)
				f.joinAll()
				sleeper, asleep := loses(t, 5)
				f.session(m, sim.Faults{})
				between(f)
				f.next(1, "algorithm=fmf-lfl rounds=1 rank=3 mode=active secagg=real "+quick)
				f.session(m, asleep, sleeper)
				between(f)
				before := fmt.Sprint([]protocol.SessionID{firstSession})
				if got := kept.of(sleeper); got != before {
					t.Errorf("the client that slept kept %v", got)
				}
				if err := f.client(sleeper, f.memberships[admission.ClientPlace(sleeper)]).Run(f.ctx); err != nil { // gets the end
					t.Fatal(err)
				}
				f.next(2, "algorithm=ssp-convex encoder.steps=10 epsilon=inf rounds=1 rank=2 features="+features(t, 12)+" "+quick)
				f.session(m, sim.Faults{})
				want := fmt.Sprint([]protocol.SessionID{firstSession, {1, 2, 3, 1}, {1, 2, 3, 2}})
				for id := range protocol.ClientID(5) {
					if got := kept.of(id); got != want {
						t.Errorf("client %d kept %v, want %v", id, got, want)
					}
				}
			})
		})
	}
}

// replaced is a place whose holder is put out and invited again, with a new identity.
func (f *federation) replaced(p admission.Place) *admission.Membership {
	f.t.Helper()
	v, err := admission.Revoke(f.operator, f.federation, nil, node.RevocationOf(&f.memberships[p].Enrolment))
	if err != nil {
		f.t.Fatal(err)
	}
	if err = f.aggregator.Revoke(v); err != nil {
		f.t.Fatal(err)
	}
	i, err := admission.Invite(f.operator, f.federation, admission.Offer{Place: p, Serial: 2, NotAfter: time.Now().Add(time.Hour), Contact: f.contact},
		simulated.New(seed, "second ticket "+p.String()))
	if err != nil {
		f.t.Fatal(err)
	}
	f.admit(i)
	f.identities[p] = f.key("again " + p.String())
	m, err := node.Enrol(f.t.Context(), i, f.identities[p], f.log, f.network.option()...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.memberships[p] = m
	return m
}

// After the first session a client is put out and invited again: it gets the end of the
// first, with a ledger of its own, and the second is with it.
func TestSessionAfterAClientWasInvitedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, "algorithm=fmf-lfl rounds=2 "+quick+"data="+ratings(t, 4, 12))
		kept := f.keeps()
		m := f.join(admission.ServerPlace)
		f.joinAll()
		f.session(m, sim.Faults{})
		const again = 2
		own := f.replaced(admission.ClientPlace(again))
		delete(f.ledgers, again)
		if err := f.client(again, own).Run(f.ctx); err != nil {
			t.Fatal(err)
		}
		f.next(1, "algorithm=fmf-lfl rounds=3 rank=3 "+quick)
		f.session(m, sim.Faults{})
		want := fmt.Sprint([]protocol.SessionID{firstSession, firstSession, {1, 2, 3, 1}})
		if got := kept.of(again); got != want {
			t.Errorf("the client that was invited again kept %v, want %v", got, want)
		}
	})
}

// counted counts the lines of a log with a text.
type counted struct {
	text string
	n    atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.text)) {
		c.n.Add(1)
	}
	return len(b), nil
}

// The server is put out after the first session and invited again. Three kinds of clients wait for
// the second: clients that have finished the first, a client that slept through it, and clients of
// an aggregator that was started again. They wait as long as it takes, without a complaint about
// who signed the first. The second session is as the simulator has it.
func TestSessionAfterTheServerWasInvitedAgain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				complaints := &counted{text: "not signed by the server"}
				again := &counted{text: "no connection to the aggregator"}
				f := newFederationOver(t, newMemory(), "algorithm=fmf-lfl rounds=2 "+quick+"data="+ratings(t, 4, 12),
					zerolog.New(zerolog.MultiLevelWriter(complaints, again)))
				f.gather = time.Second
				kept := f.keeps()
				m := f.join(admission.ServerPlace)
				f.joinAll()
				const slept = 3
				f.run1(m, slept)
				m = f.replaced(admission.ServerPlace)
				if restart {
					f.reopen()
				}
				complaints.n.Store(0) // of the restart, by the aggregator, once
				again.n.Store(0)
				f.next(1, "algorithm=fmf-lfl rounds=3 rank=3 "+quick)
				var all []*node.Client
				for id := range protocol.ClientID(4) {
					all = append(all, f.client(id, f.memberships[admission.ClientPlace(id)]))
				}
				wait := f.start(all...)
				time.Sleep(time.Minute) // of virtual time: clients would dial again and again
				if a, b := complaints.n.Load(), again.n.Load(); a > 0 || b > 0 {
					t.Errorf("clients that wait: %d complaints, dialled again %d times", a, b)
				}
				f.leads(m, sim.Faults{})
				wait()
				if got, want := kept.of(slept), fmt.Sprint([]protocol.SessionID{{1, 2, 3, 1}}); got != want {
					t.Errorf("the client that slept through the first kept %v, want %v", got, want)
				}
			})
		})
	}
}

// The next session is published while a client is still at work on the model of the last:
// it ends with the last, as it would have, and nothing of it is lost.
func TestNextSessionWhileAClientFinishesTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, "algorithm=fmf-lfl rounds=2 "+quick+"data="+ratings(t, 4, 12))
		f.gather = time.Second
		kept := f.keeps()
		m := f.join(admission.ServerPlace)
		const slow = 3
		hold := make(chan struct{})
		f.trainer = func(id protocol.ClientID, own client.Trainer) client.Trainer {
			if id == slow && f.public.Session == firstSession {
				return &lingering{own, hold}
			}
			return own
		}
		all := f.joinAll()
		late := make(chan error, 1)
		go func() { late <- all[slow].Run(f.ctx) }()
		wait := f.start(append(all[:slow:slow], all[slow+1:]...)...)
		f.leads(m, sim.Faults{})
		wait()
		f.next(1, "algorithm=fmf-lfl rounds=3 rank=3 "+quick)
		f.run1(m, slow)
		close(hold)
		if err := <-late; err != nil {
			t.Fatal(err)
		}
		if got, want := kept.of(slow), fmt.Sprint([]protocol.SessionID{firstSession}); got != want {
			t.Errorf("it kept %v, want %v", got, want)
		}
	})
}

// lingering is a trainer that takes long over the final model.
type lingering struct {
	client.Trainer
	until <-chan struct{}
}

func (l *lingering) Finish(model []byte, run protocol.Runner) error {
	<-l.until
	return l.Trainer.Finish(model, run)
}

// The costs of sessions add up in the ledger of a client. A budget of epsilon=10 that one session
// has spent to the full pays for no round of a second. A budget of 40 pays for a second session of
// 25, as a ledger would that has lived through both.
func TestBudgetOfTwoSessions(t *testing.T) {
	for _, second := range []struct {
		epsilon string
		charged bool
	}{{"10", false}, {"25", true}} {
		t.Run(second.epsilon, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				noised := "algorithm=lfl-sgdmf rounds=2 mode=semi-honest " + quick
				f := newFederation(t, noised+"epsilon=10 data="+ratings(t, 4, 12))
				m := f.join(admission.ServerPlace)
				consents := make([]atomic.Int32, f.simulated.Cohort.All())
				f.consented = func(id protocol.ClientID) error { consents[id].Add(1); return nil }
				f.run1(m)
				one, err := f.ledgers[0].Records()
				if err != nil || len(one) != 2 {
					t.Fatalf("%d charges, %v; want 2", len(one), err)
				}
				f.next(1, noised+"epsilon="+second.epsilon)
				budget := f.simulated.Privacy.Budget
				if second.charged {
					budget.Epsilon = 40 // for both
				}
				f.limit = &budget
				ledger, err := dp.RestoreLedger(budget, new(dp.Cache), one)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(f.ctx)
				var all sync.WaitGroup
				for _, c := range f.joinAll() {
					all.Go(func() { _ = c.Run(ctx) })
				}
				out, err := f.server(m).Run(f.ctx)
				if declined := errors.Is(err, node.ErrDeclined); !declined && err != nil || declined == second.charged {
					t.Fatalf("the second session: %+v, %v; want it declined: %v", out, err, !second.charged)
				}
				synctest.Wait() // clients have heard of the end, too
				stop()
				all.Wait()
				both, err := f.ledgers[0].Records()
				if err != nil {
					t.Fatal(err)
				}
				if charged := len(both) > len(one); charged != second.charged {
					t.Errorf("%d charges after the first session, %d after the second", len(one), len(both))
				}
				for _, r := range both[len(one):] { // a ledger in memory that has lived through both takes the same
					if err = ledger.Charge(r.Session, r.Round, r.Events); err != nil {
						t.Errorf("round %d of session %x: %v", r.Round, r.Session[:4], err)
					}
				}
				want := int32(1) // of the first session alone, where all ledgers refuse the second
				if second.charged {
					want = 2
				}
				for id := range consents {
					if got := consents[id].Load(); got != want {
						t.Errorf("client %d has consented to %d sessions, want %d", id, got, want)
					}
				}
				if second.charged {
					return
				}
				// All declined it. Started again, they await the next at once.
				f.next(2, "algorithm=fmf-lfl rounds=1 "+quick)
				wait := f.start(f.joinAll()...)
				synctest.Wait() // they have been shown the second
				f.leads(m, sim.Faults{})
				wait()
			})
		})
	}
}

// run1 has all clients except the away ones take part in a session, without comparing.
func (f *federation) run1(server *admission.Membership, away ...protocol.ClientID) {
	f.t.Helper()
	all := f.joinAll()
	var there []*node.Client
	for id, c := range all {
		if !slices.Contains(away, protocol.ClientID(id)) {
			there = append(there, c)
		}
	}
	wait := f.start(there...)
	if _, err := f.server(server).Run(f.ctx); err != nil {
		f.t.Fatal(err)
	}
	wait()
}
