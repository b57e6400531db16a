package node_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// errOwner stands for an owner's reason, with a figure that no other party may learn.
var errOwner = errors.New("8.695 is spent")

// Owners exclude a session: the server ends with how many and the kind, and no figure; the clients live on, and the
// same processes take part in the next session.
func TestDeclinedSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, "algorithm=fmf-lfl rounds=2 "+quick+"data="+ratings(t, 4, 12))
		m := f.join(admission.ServerPlace)
		f.refuses = func(_ protocol.ClientID, s protocol.SessionID) error {
			if s == firstSession {
				return errOwner
			}
			return nil
		}
		ctx, stop := context.WithCancel(f.ctx)
		defer stop()
		var all sync.WaitGroup
		for id, c := range f.joinAll() {
			all.Go(func() {
				if err := c.Run(ctx); err != nil {
					t.Errorf("client %d: %v", id, err)
				}
			})
		}
		_, err := f.server(m).Run(f.ctx)
		if !errors.Is(err, node.ErrDeclined) || !strings.Contains(err.Error(), "4 of 4 (terms 4)") || strings.Contains(err.Error(), "8.695") {
			t.Errorf("the server ends with %v", err)
		}
		if err = f.aggregator.Check(); !errors.Is(err, node.ErrDeclined) {
			t.Errorf("the aggregator is ready: %v", err)
		}
		f.next(1, "algorithm=fmf-lfl rounds=1 rank=3 "+quick)
		if _, err = f.server(m).Run(f.ctx); err != nil {
			t.Errorf("the next session: %v", err)
		}
		all.Wait()
		if err = f.aggregator.Check(); err != nil {
			t.Errorf("the aggregator after the next session: %v", err)
		}
	})
}

// One client declines, and speaks for itself alone: the session continues without it, as tolerance
// allows.
func TestOneDeclineEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, "algorithm=fmf-lfl rounds=1 "+quick+"data="+ratings(t, 4, 12))
		m := f.join(admission.ServerPlace)
		f.refuses = func(id protocol.ClientID, _ protocol.SessionID) error {
			if id == 3 {
				return errOwner
			}
			return nil
		}
		ctx, stop := context.WithCancel(f.ctx)
		var all sync.WaitGroup
		for _, c := range f.joinAll() {
			all.Go(func() { _ = c.Run(ctx) })
		}
		if _, err := f.server(m).Run(f.ctx); err != nil {
			t.Errorf("the server ends with %v", err)
		}
		stop()
		all.Wait()
	})
}

// Each reason for which a ledger refuses a session is told by its own kind.
func TestLedgersDeclineByKind(t *testing.T) {
	const noised = "algorithm=lfl-sgdmf rounds=1 mode=semi-honest epsilon=10 " + quick
	for _, c := range []struct {
		want  string
		first string // the session before
	}{
		{"4 of 4 (budget 4)", noised},
		{"4 of 4 (unit 4)", "algorithm=fmf-lfl rounds=1 " + quick}, // after which no budget can be kept
	} {
		t.Run(c.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFederation(t, c.first+"data="+ratings(t, 4, 12))
				m := f.join(admission.ServerPlace)
				f.run1(m)
				f.next(1, noised)
				budget := f.simulated.Privacy.Budget
				f.limit = &budget
				ctx, stop := context.WithCancel(f.ctx)
				var all sync.WaitGroup
				for id, client := range f.joinAll() {
					all.Go(func() {
						if err := client.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
							t.Errorf("client %d ends with %v", id, err)
						}
					})
				}
				_, err := f.server(m).Run(f.ctx)
				if !errors.Is(err, node.ErrDeclined) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the server ends with %v, want %s", err, c.want)
				}
				stop()
				all.Wait()
			})
		})
	}
}

// A client's file is missing when a session begins. Its process declines the session, says why to its owner, and is in the next
// one, when the file is there. Others learn the kind of reason alone.
func TestMissingDataAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const who = protocol.ClientID(3)
		all := ratings(t, 4, 12)
		f := newFederation(t, noisy+quick+"data="+all)
		f.limit = &dp.Budget{Epsilon: 100, Delta: f.simulated.Privacy.Budget.Delta, Accountant: f.simulated.Privacy.Budget.Accountant}
		f.gather = 3 * time.Second
		file := filepath.Join(t.TempDir(), "ratings.csv")
		f.own = map[protocol.ClientID]string{who: file}
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
		clients := f.joinAll()
		stays := f.start(clients[who])
		lead := func(clients ...*node.Client) {
			t.Helper()
			wait := f.start(clients...)
			if _, err := f.server(m).Run(f.ctx); err != nil {
				t.Fatal(err)
			}
			wait()
		}
		lead(slices.Delete(clients, int(who), int(who)+1)...)
		if len(why) == 0 || !errors.Is(why[0], fs.ErrNotExist) || f.ledgers[who].Charges() != 0 {
			t.Errorf("without the file: the owner is told %v, and %d rounds were charged", why, f.ledgers[who].Charges())
		}
		text, err := os.ReadFile(all)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.next(1, noisy+quick)
		var rest []*node.Client
		for id := range protocol.ClientID(4) {
			if id != who {
				rest = append(rest, f.client(id, f.memberships[admission.ClientPlace(id)]))
			}
		}
		lead(rest...)
		stays()
		if f.ledgers[who].Charges() != 1 {
			t.Errorf("with the file: %d rounds were charged", f.ledgers[who].Charges())
		}
	})
}
