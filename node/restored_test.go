package node_test

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// checkpoints reads the checkpoints of a server's state, to be put back.
func checkpoints(t *testing.T, state string) (put func()) {
	t.Helper()
	kept := make(map[string][]byte)
	for _, name := range []string{"checkpoint", "checkpoint.previous"} {
		b, err := os.ReadFile(filepath.Join(state, name))
		if err != nil {
			t.Fatal(err)
		}
		kept[name] = b
	}
	return func() {
		for name, b := range kept {
			if err := os.WriteFile(filepath.Join(state, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A server's state is copied in the second of eight rounds, and put back in the sixth. The rounds that it has forgotten are
// skipped at once, and count: clients were charged for each round once, and the server states as many.
func TestServerIsRestoredWithinASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warned atomic.Bool
		log := testLog(t).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, text string) {
			warned.CompareAndSwap(false, strings.Contains(text, "restored from an older copy") && strings.Contains(text, "skipped at once"))
		}))
		f := newFederationOver(t, newMemory(), long+"rounds=8 data="+ratings(t, 4, 12), log)
		m := f.join(admission.ServerPlace)
		wait := f.start(f.joinAll()...)
		ctx, stop := context.WithCancel(t.Context())
		var put func()
		copied := at(protocol.RoundSummed, 2, func() { put = checkpoints(t, f.dir) })
		stopped := at(protocol.RoundSummed, 6, stop)
		f.hear = func(e protocol.Event) { copied(e); stopped(e) }
		if out, err := f.server(m).Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("the server that was stopped: %v, %v", out, err)
		}
		f.hear = nil
		put()
		began := time.Now()
		out, err := f.server(m).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if out.Attempts.Opened != 8 {
			t.Errorf("attempts %+v, want 8 opened", out.Attempts)
		}
		if took := time.Since(began); took > 10*time.Second { // a stage may last 60 s, and none has to
			t.Errorf("the rest of the session took %v", took)
		}
		for id, l := range f.ledgers {
			if got := l.Last(f.public.Session); l.Charges() > 8 || got != 8 {
				t.Errorf("client %d: %d charges, the last of round %d", id, l.Charges(), got)
			}
		}
		if !warned.Load() {
			t.Error("the server's log does not say that its state was restored")
		}
	})
}

// The server and the aggregator are restored from copies that lack the last session, so that clients alone know of it. They show its
// signed end, and the server ends for good. A session that another server signed says nothing of this one.
func TestServerAndAggregatorAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, long+"rounds=3 data="+ratings(t, 4, 12))
		m := f.join(admission.ServerPlace)
		f.joinAll()
		var put func()
		f.hear = at(protocol.RoundSummed, 2, func() { put = checkpoints(t, f.dir) })
		f.session(m, sim.Faults{})
		f.hear = nil
		first := hex.EncodeToString(f.public.Session[:])
		f.knows = func(string) (bool, error) { return false, nil }
		put()
		for _, name := range []string{"ended.json", "heads.txt"} {
			if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		f.reopen()
		refused := func(says string) {
			t.Helper()
			stop := f.startStoppable(f.client(3, f.memberships[admission.ClientPlace(3)]))
			defer stop()
			if _, err := f.server(m).Run(t.Context()); !errors.Is(err, node.ErrRestored) || !cli.IsMisuse(err) || !strings.Contains(err.Error(), says) {
				t.Errorf("the server ends with %v", err)
			}
		}
		refused("the session " + first + " has ended")
		f.next(1, long+"rounds=3")
		refused("has signed the session " + first)
		f.knows = func(name string) (bool, error) { return name == first, nil }
		f.session(m, sim.Faults{})
	})
}

// A server whose state was copied before the last session does not know that session, and ends for good: it would state a
// total without it. So does a server that knows its beginning alone. A server that knows it begins the next one.
func TestServerIsRestoredBeforeASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, long+"rounds=3 data="+ratings(t, 4, 12))
		m := f.join(admission.ServerPlace)
		f.joinAll()
		var put func()
		f.hear = at(protocol.RoundSummed, 2, func() { put = checkpoints(t, f.dir) })
		f.session(m, sim.Faults{})
		f.hear = nil
		f.knows = func(string) (bool, error) { return false, nil }
		refused := func(says string) {
			t.Helper()
			s, err := node.NewServer(f.serverConfig(m))
			if err != nil {
				t.Fatal(err)
			}
			if _, err = s.Run(t.Context()); !errors.Is(err, node.ErrRestored) || !cli.IsMisuse(err) || !strings.Contains(err.Error(), says) {
				t.Errorf("the server ends with %v", err)
			}
		}
		first := f.public.Session
		put()
		refused("has ended for the aggregator or a client")
		f.next(1, long+"rounds=3")
		refused("has signed the session " + hex.EncodeToString(first[:]))
		f.knows = func(name string) (bool, error) { return name == hex.EncodeToString(first[:]), nil }
		f.session(m, sim.Faults{})
		for id, l := range f.ledgers {
			if l.Charges() != 6 {
				t.Errorf("client %d has %d charges", id, l.Charges())
			}
		}
	})
}
