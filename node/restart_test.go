package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// at calls f once, when an event of a round is reported.
func at(kind protocol.EventKind, round uint64, f func()) func(protocol.Event) {
	var once sync.Once
	return func(e protocol.Event) {
		if e.Kind == kind && e.Round == round {
			once.Do(f)
		}
	}
}

// With short, a stage that a client is missing from ends soon; with long, no stage does.
const (
	short = lfl + "deployment.stage-timeout-s=6 "
	long  = lfl + "deployment.stage-timeout-s=60 "
)

// An aggregator is killed in the middle of the third of five rounds and started again: that round
// is lost, and the session continues to its end.
func TestAggregatorRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, long+"rounds=5 data="+ratings(t, 4, 12))
		killed, again := make(chan struct{}), make(chan struct{})
		f.watch = at(protocol.RoundOpened, 3, func() {
			f.kill()
			close(killed)
		})
		go func() {
			defer close(again)
			<-killed
			_ = f.aggregator.Close()
			address, _, _ := strings.Cut(f.contact.Addresses[0], "/p2p/")
			f.startAggregator([]string{address})
		}()
		out := f.run()
		<-again
		if out.Attempts.Opened != 5 || out.Attempts.Released != 4 {
			t.Errorf("attempts %+v, want 5 opened and 4 released", out.Attempts)
		}
	})
}

// A server is stopped when the sum of the third of five rounds arrives, before it has taken it in.
// Another server continues from its checkpoint.
func TestServerResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, long+"rounds=5 data="+ratings(t, 4, 12))
		m := f.join(admission.ServerPlace)
		wait := f.start(f.joinAll()...)
		ctx, stop := context.WithCancel(t.Context())
		f.hear = at(protocol.RoundSummed, 3, stop)
		if out, err := f.server(m).Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("the server that was stopped: %v, %v", out, err)
		}
		f.hear = nil
		out, err := f.server(m).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if out.Attempts.Opened != 5 || out.Attempts.Released != 4 {
			t.Errorf("attempts %+v, want 5 opened and 4 released", out.Attempts)
		}
	})
}

// tripwire is a ledger's log that calls a function once a charge for a round is
// durable.
type tripwire struct {
	store.Log
	round uint64
	trip  func()
}

func (l *tripwire) Append(entries ...[]byte) error {
	if err := l.Log.Append(entries...); err != nil {
		return err
	}
	for _, text := range entries {
		var e struct {
			Round uint64 `json:"round"`
		}
		if err := json.Unmarshal(text, &e); err != nil {
			return err
		}
		if e.Round == l.round {
			l.trip()
		}
	}
	return nil
}

// A client is stopped when it has been charged for the third of six rounds, about when its masked
// input leaves. It is started again with its ledger. It is lost from that round, and is back for
// the last.
func TestClientRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, short+"rounds=6 data="+ratings(t, 4, 12))
		const id = 3
		log := store.NewMemoryLog()
		ctx, stop := context.WithCancel(t.Context())
		var err error
		if f.ledgers[id], err = store.NewLedger(&tripwire{log, 3, stop}); err != nil {
			t.Fatal(err)
		}
		var lost []uint64 // rounds that it was lost from, as the aggregator reports them
		f.watch = func(e protocol.Event) {
			if e.Kind == protocol.ClientLost && e.Party == protocol.ClientParty(id) {
				lost = append(lost, e.Round)
			}
		}
		m := f.join(admission.ServerPlace)
		clients := f.joinAll()
		ended := make(chan error, 1)
		go func() {
			if end := clients[id].Run(ctx); !errors.Is(end, context.Canceled) {
				t.Errorf("the client that was stopped: %v", end)
			}
			ledger, failed := store.NewLedger(log)
			if failed != nil {
				ended <- failed
				return
			}
			f.ledgers[id] = ledger
			ended <- f.client(id, f.memberships[admission.ClientPlace(id)]).Run(t.Context())
		}()
		wait := f.start(append(clients[:id:id], clients[id+1:]...)...)
		out, err := f.server(m).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err = <-ended; err != nil {
			t.Errorf("the client that was started again: %v", err)
		}
		wait()
		if out.Attempts.Opened != 6 || out.Attempts.Released != 6 {
			t.Errorf("attempts %+v, want 6 of 6", out.Attempts)
		}
		_ = f.aggregator.Close() // whose driver has returned then
		if len(lost) == 0 || lost[0] != 3 || lost[len(lost)-1] == 6 {
			t.Errorf("it was lost from rounds %v; want 3 first, and not 6", lost)
		}
		if last := f.ledgers[id].Last(f.public.Session); last != 6 {
			t.Errorf("its ledger ends with round %d, want 6", last)
		}
	})
}

// A client is revoked in the second of four rounds. It is put out and does not come back. The
// session continues without it, on a list that the server has signed for.
func TestRevokedClientIsPutOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, short+"rounds=4 data="+ratings(t, 4, 12))
		const id = 2
		m := f.join(admission.ServerPlace)
		clients := f.joinAll()
		revocations, err := admission.Revoke(f.operator, f.federation, nil, node.RevocationOf(&f.memberships[admission.ClientPlace(id)].Enrolment))
		if err != nil {
			t.Fatal(err)
		}
		f.watch = at(protocol.RoundOpened, 2, func() {
			if failed := f.aggregator.Revoke(revocations); failed != nil {
				t.Error(failed)
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		out := make(chan error, 1)
		go func() { out <- clients[id].Run(ctx) }()
		wait := f.start(append(clients[:id:id], clients[id+1:]...)...)
		outcome, err := f.server(m).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if outcome.Attempts.Opened != 4 || outcome.Attempts.Released != 3 {
			t.Errorf("attempts %+v, want 4 opened and all but one released", outcome.Attempts)
		}
		if last := f.ledgers[id].Last(f.public.Session); last > 2 {
			t.Errorf("the revoked client took part in round %d", last)
		}
		if f.hears(f.identity(admission.ClientPlace(id)), peer.ProtocolID, registration()) {
			t.Error("the revoked client was let in again")
		}
		stop()
		if err = <-out; !errors.Is(err, context.Canceled) {
			t.Errorf("the revoked client ended with %v; it is not told the final model", err)
		}
	})
}

// Too few clients come: the server says so and what to do, a day after it has stopped waiting for all.
func TestServerThatWaitsInVainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, short+"rounds=1 data="+ratings(t, 4, 12))
		f.gather = time.Minute
		m := f.join(admission.ServerPlace)
		ctx, stop := context.WithTimeout(t.Context(), 26*time.Hour) // a server that waits for ever is stopped too
		var one sync.WaitGroup
		one.Go(func() { _ = f.joinAll()[0].Run(ctx) })
		synctest.Wait()
		began := time.Now()
		_, err := f.server(m).Run(ctx)
		if took := time.Since(began); !errors.Is(err, node.ErrTooFewClients) || took < 24*time.Hour || took > 25*time.Hour {
			t.Errorf("after %v: %v", took, err)
		}
		stop()
		one.Wait()
	})
}

// One client never comes: after a while the server begins with the others.
func TestServerBeginsWithEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, short+"rounds=1 data="+ratings(t, 4, 12))
		f.gather = 50 * time.Millisecond
		m := f.join(admission.ServerPlace)
		wait := f.start(f.joinAll()[1:]...)
		out, err := f.server(m).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if out.Attempts.Opened != 1 || out.Attempts.Released != 1 {
			t.Errorf("attempts %+v, want 1 of 1", out.Attempts)
		}
	})
}
