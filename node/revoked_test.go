package node_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// told is closed when something is logged.
type told struct {
	text string
	once sync.Once
	now  chan struct{}
}

func tells(text string) *told { return &told{text: text, now: make(chan struct{})} }

func (w *told) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(w.text)) {
		w.once.Do(func() { close(w.now) })
	}
	return len(b), nil
}

// revocation puts a client out.
func (f *federation) revocation(id protocol.ClientID) *admission.Revocations {
	f.t.Helper()
	v, err := admission.Revoke(f.operator, f.federation, nil, node.RevocationOf(&f.memberships[admission.ClientPlace(id)].Enrolment))
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

// stoppable has a client take part that may be put out, until it is stopped.
func (f *federation) stoppable(run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// A client is revoked, and the aggregator holds that back. Another client has the revocation from
// the operator after the second of six rounds, and takes part in no sum with the revoked client.
// When the aggregator has put the revoked client out after the fourth round, the other client is
// back.
func TestClientKnowsRevocationsThatTheAggregatorHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, short+"tolerance=0.4 rounds=6 data="+ratings(t, 5, 12))
		const revoked, informed = 2, 4
		m := f.join(admission.ServerPlace)
		clients := f.joinAll()
		v := f.revocation(revoked)
		lost := make(map[uint64]bool) // rounds that the client who knows was lost from
		var mu sync.Mutex
		f.watch = func(e protocol.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == protocol.ClientLost && e.Party == protocol.ClientParty(informed) {
				lost[e.Round] = true
			}
		}
		f.hear = func(e protocol.Event) {
			var err error
			switch {
			case e.Kind == protocol.RoundSummed && e.Round == 2:
				err = clients[informed].Revoke(v)
			case e.Kind == protocol.RoundSummed && e.Round == 4:
				err = f.aggregator.Revoke(v)
			}
			if err != nil {
				t.Error(err)
			}
		}
		stop := f.stoppable(clients[revoked].Run)
		wait := f.start(append(clients[:revoked:revoked], clients[revoked+1:]...)...)
		out, err := f.server(m).Run(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if err = stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("the revoked client ended with %v", err)
		}
		if out.Attempts.Opened != 6 || out.Attempts.Released < 5 { // one may be in progress when the list changes
			t.Errorf("attempts %+v, want 6 opened and 5 or 6 released", out.Attempts)
		}
		_ = f.aggregator.Close() // whose driver has returned then
		mu.Lock()
		defer mu.Unlock()
		if !lost[3] || !lost[4] || lost[1] || lost[2] || lost[6] {
			t.Errorf("the client that knew was lost from rounds %v; want 3, 4 and perhaps 5", lost)
		}
		if last := f.ledgers[informed].Last(f.public.Session); last != 6 {
			t.Errorf("its ledger ends with round %d, want 6", last)
		}
	})
}

// A server that has from the operator that a client is revoked opens no round before
// the aggregator has put that one out.
func TestServerKnowsRevocationsThatTheAggregatorHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := tells("newer revocations than these are known")
		f := newFederationOver(t, newMemory(), short+"rounds=4 data="+ratings(t, 4, 12), zerolog.New(refused))
		const revoked = 2
		m := f.join(admission.ServerPlace)
		clients := f.joinAll()
		v := f.revocation(revoked)
		var server *node.Server
		var known, early atomic.Bool
		f.watch = func(e protocol.Event) {
			if e.Kind == protocol.RoundOpened && e.Round > 2 && !known.Load() {
				early.Store(true)
			}
		}
		f.hear = at(protocol.RoundSummed, 2, func() {
			if err := server.Revoke(v); err != nil {
				t.Error(err)
			}
		})
		go func() {
			select {
			case <-refused.now:
			case <-f.ctx.Done():
			}
			known.Store(true)
			if err := f.aggregator.Revoke(v); err != nil {
				t.Error(err)
			}
		}()
		server = f.server(m) // by whom f.hear is heard
		stop := f.stoppable(clients[revoked].Run)
		wait := f.start(append(clients[:revoked:revoked], clients[revoked+1:]...)...)
		out, err := server.Run(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		wait()
		_ = stop() // it has no end of its own
		if early.Load() {
			t.Error("a round was opened with somebody whom the operator has revoked")
		}
		if out.Attempts.Opened < 4 {
			t.Errorf("attempts %+v, want 4 opened", out.Attempts)
		}
	})
}

// A party that is told that it is itself revoked does not dial on for ever.
func TestRevokedPartyEnds(t *testing.T) {
	f := newFederation(t, short+"rounds=1 data="+ratings(t, 4, 12))
	client, server := f.client(3, f.join(admission.ClientPlace(3))), f.server(f.join(admission.ServerPlace))
	for name, p := range map[string]struct {
		own    admission.Place
		revoke func(*admission.Revocations) error
		run    func() error
	}{
		"client": {admission.ClientPlace(3), client.Revoke, func() error { return client.Run(f.ctx) }},
		"server": {admission.ServerPlace, server.Revoke, func() error { _, err := server.Run(f.ctx); return err }},
	} {
		v, err := admission.Revoke(f.operator, f.federation, nil, node.RevocationOf(&f.memberships[p.own].Enrolment))
		if err != nil {
			t.Fatal(err)
		}
		if err = p.revoke(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err = p.run(); !errors.Is(err, admission.ErrRevoked) {
			t.Errorf("the %s ended with %v", name, err)
		}
	}
}
