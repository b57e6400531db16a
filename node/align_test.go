package node_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// alignment is one among the places of a federation.
type alignment struct {
	*federation
	lists [][]string
	join  map[admission.Place]*admission.Membership
	regs  map[admission.Place]*admission.Registry

	mu     sync.Mutex
	rows   map[protocol.ClientID]*align.Rows
	union  *align.Union
	ended  *align.Ended
	begins func() // hears of each member that begins an attempt; nil: not called
	begun  int
	// keeps hears of each result before it is kept; its error is the error of keeping it. nil: not
	// called.
	keeps func(admission.Place) error
}

// vertical are settings of parties that share users.
const vertical = "algorithm=fmf-vfl rounds=3 parties=3 colluders=0.2 "

func newAlignment(t *testing.T) *alignment {
	t.Helper()
	return alignmentOf(newFederation(t, vertical+"data="+ratings(t, 4, 12)))
}

func alignmentOf(f *federation) *alignment {
	x := &alignment{federation: f, rows: make(map[protocol.ClientID]*align.Rows),
		join: make(map[admission.Place]*admission.Membership), regs: make(map[admission.Place]*admission.Registry)}
	for k := range x.federation.federation.Clients {
		var list []string
		for i := k; i < k+10; i++ {
			list = append(list, fmt.Sprintf("u%02d", i))
		}
		x.lists = append(x.lists, list)
	}
	for _, p := range x.places() {
		x.join[p], x.regs[p] = x.federation.join(p), x.openRegistry()
	}
	return x
}

func (x *alignment) places() []admission.Place {
	list := []admission.Place{admission.ServerPlace}
	for id := range protocol.ClientID(x.federation.federation.Clients) {
		list = append(list, admission.ClientPlace(id))
	}
	return list
}

// member runs the holder of a place to its end.
func (x *alignment) member(ctx context.Context, p admission.Place) error {
	x.mu.Lock()
	cfg := node.AlignConfig{Entropy: entropy.System(), Member: node.Member{Identity: x.identity(p), Membership: x.join[p], Registry: x.regs[p],
		Log: x.log.With().Stringer("place", p).Logger().Hook(x), Workers: 1}}
	cfg.Over(x.network.option()...)
	earlier := x.ended
	if p == admission.ServerPlace && x.union != nil {
		cfg.Kept = x.union.Attempt
	} else if rows := x.rows[p.Client]; p != admission.ServerPlace && rows != nil {
		cfg.Kept = rows.Attempt
	}
	x.mu.Unlock()
	if p == admission.ServerPlace {
		return node.AlignServer(ctx, cfg, earlier, func(u *align.Union, e *align.Ended) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.union, x.ended = u, e
			return x.kept(p)
		})
	}
	return node.AlignParty(ctx, cfg, x.lists[p.Client], len(x.lists[p.Client])+int(p.Client), func(r *align.Rows) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.rows[p.Client] = r
		return x.kept(p)
	})
}

// Run hears a line of a member's log.
func (x *alignment) Run(_ *zerolog.Event, _ zerolog.Level, message string) {
	if message == "aligning" {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.begun++
		if x.begins != nil {
			x.begins()
		}
	}
}

func (x *alignment) kept(p admission.Place) error {
	if x.keeps == nil {
		return nil
	}
	return x.keeps(p)
}

// check compares the results of all parties.
func (x *alignment) check() {
	x.t.Helper()
	row := make(map[string]int)
	for k, list := range x.lists {
		rows := x.rows[protocol.ClientID(k)]
		if rows == nil || rows.Attempt != x.union.Attempt || rows.Users != x.union.Users {
			x.t.Fatalf("party %d keeps %+v, the server %+v", k, rows, x.union)
		}
		for _, id := range list {
			n, ok := rows.Row[id]
			if before, known := row[id]; !ok || known && before != n {
				x.t.Errorf("row %d of %s at party %d, %d before", n, id, k, before)
			}
			row[id] = n
		}
	}
	if want := len(row) + 0 + 1 + 2; x.union.Users != want {
		x.t.Errorf("%d rows, want %d", x.union.Users, want)
	}
}

func TestAlign(t *testing.T) { newAlignment(t).all() }

var errKilled = errors.New("killed")

// A member dies when it has its result, before or after the write, and is started again. All
// members end with one result.
func TestAlignRestarts(t *testing.T) {
	for _, who := range []admission.Place{admission.ServerPlace, admission.ClientPlace(0), admission.ClientPlace(2)} {
		t.Run(who.String(), func(t *testing.T) {
			x := newAlignment(t)
			killed := 0
			x.keeps = func(p admission.Place) error {
				if p == who && killed == 0 {
					killed++
					return errKilled
				}
				return nil
			}
			var all sync.WaitGroup
			for _, p := range x.places() {
				all.Go(func() {
					err := x.member(x.ctx, p)
					if errors.Is(err, errKilled) {
						err = x.member(x.ctx, p)
					}
					if err != nil {
						t.Errorf("%s: %v", p, err)
					}
				})
			}
			all.Wait()
			x.check()
			if killed != 1 {
				t.Errorf("%s was started again %d times", who, killed)
			}
		})
	}
}

// all runs every member to the end.
func (x *alignment) all() {
	x.t.Helper()
	var all sync.WaitGroup
	for _, p := range x.places() {
		all.Go(func() {
			if err := x.member(x.ctx, p); err != nil {
				x.t.Errorf("%s: %v", p, err)
			}
		})
	}
	all.Wait()
	x.check()
}

// Broken connections, of every member and several times, cost no attempt.
func TestAlignOverABrokenLine(t *testing.T) {
	x := alignmentOf(newLoopbackFederation(t, vertical+"data="+ratings(t, 4, 12)))
	line := newRelay(t, x.hub.Addrs[0].String())
	for k := range x.lists {
		for i := range 100 {
			x.lists[k] = append(x.lists[k], fmt.Sprintf("more-%d-of-%d", i, i%(k+2)))
		}
	}
	for _, m := range x.join {
		m.Contact.Addresses = []string{line.address()}
	}
	cuts := 0
	x.begins = func() {
		if x.begun == len(x.lists)+1 { // every member, and none is ready
			cuts++
			line.cut()
			go func() {
				for range 2 {
					time.Sleep(400 * time.Millisecond) // while they dial again, and continue
					line.cut()
				}
			}()
		}
	}
	x.all()
	if cuts != 1 || x.begun != len(x.lists)+1 {
		t.Errorf("the line was cut %d times when all had begun; attempts begun by members: %d, want one each", cuts, x.begun)
	}
}

// An aggregator that is started again has forgotten who was there, and that is all.
func TestAlignAggregatorRestarts(t *testing.T) {
	x := newAlignment(t)
	for k := range x.lists {
		for i := range 40 {
			x.lists[k] = append(x.lists[k], fmt.Sprintf("more-%d", i))
		}
	}
	x.begins = func() {
		if x.begun == len(x.lists)+1 {
			_ = x.aggregator.Close()
			x.startAggregator([]string{x.hub.Addrs[0].String()})
		}
	}
	x.all()
	if x.begun != len(x.lists)+1 {
		t.Errorf("attempts begun by members: %d, want one each", x.begun)
	}
}

// A party that is alone in not having heard of the end hears of it when it comes again.
func TestAlignLateEnd(t *testing.T) {
	x := newAlignment(t)
	ctx, stop := context.WithCancel(x.ctx)
	late := admission.ClientPlace(2)
	x.keeps = func(p admission.Place) error {
		if p == admission.ServerPlace {
			stop() // all have said that they keep theirs
		}
		return nil
	}
	var all sync.WaitGroup
	for _, p := range x.places() {
		all.Go(func() {
			ctx := ctx
			if p != late {
				ctx = x.ctx
			}
			if err := x.member(ctx, p); err != nil && p != late {
				t.Errorf("%s: %v", p, err)
			}
		})
	}
	all.Wait()
	if err := x.member(x.ctx, late); err != nil {
		t.Error(err)
	}
	x.check()
}
