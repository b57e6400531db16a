package node_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// A role is told to stop when client 0 has paid for the third of five rounds. The role finishes that round before it leaves, so that no
// client pays for a round without a sum; the next round is given up before any client pays for it.
func TestRolesStopBetweenRounds(t *testing.T) {
	for name, stops := range map[string]func(f *federation, stop func()) (trip func(), done func()){
		"aggregator": func(f *federation, _ func()) (trip, done func()) {
			again := make(chan struct{})
			return func() {
				go func() {
					defer close(again)
					f.aggregator.Drain()
					_ = f.aggregator.Close()
					address, _, _ := strings.Cut(f.contact.Addresses[0], "/p2p/")
					f.startAggregator([]string{address})
				}()
			}, func() { <-again }
		},
		"server": func(_ *federation, stop func()) (trip, done func()) { return stop, func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFederation(t, long+"rounds=5 data="+ratings(t, 4, 12))
				ctx, stop := context.WithCancel(t.Context())
				trip, done := stops(f, stop)
				var once sync.Once
				logs := make([]store.Log, f.federation.Places())
				for id := range logs {
					logs[id] = store.NewMemoryLog()
					log := logs[id]
					if id == 0 {
						log = &tripwire{Log: log, round: 3, trip: func() { once.Do(trip) }}
					}
					var err error
					if f.ledgers[protocol.ClientID(id)], err = store.NewLedger(log); err != nil {
						t.Fatal(err)
					}
				}
				m := f.join(admission.ServerPlace)
				wait := f.start(f.joinAll()...)
				out, err := f.server(m).RunAndDrain(ctx)
				if errors.Is(err, context.Canceled) {
					out, err = f.server(m).Run(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				wait()
				done()
				stop()
				if out.Attempts.Opened != 5 || out.Attempts.Released != 4 {
					t.Errorf("attempts %+v, want 5 opened and 4 released", out.Attempts)
				}
				for id, log := range logs {
					var rounds []uint64
					for _, c := range charges(t, log) {
						rounds = append(rounds, c.Round)
					}
					if len(rounds) != 4 || rounds[2] != 3 || rounds[3] != 5 {
						t.Errorf("client %d paid for the rounds %v, want 1, 2, 3 and 5", id, rounds)
					}
				}
			})
		})
	}
}

// A client that is told to stop when it has paid for the third of five rounds is in the sum of that round, and in no later one.
func TestClientsStopBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, short+"rounds=5 data="+ratings(t, 4, 12))
		const id = 3
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		log := store.NewMemoryLog()
		var err error
		if f.ledgers[id], err = store.NewLedger(&tripwire{Log: log, round: 3, trip: stop}); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		lost := make(map[uint64]bool)
		f.watch = func(e protocol.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == protocol.ClientLost && e.Party == protocol.ClientParty(id) {
				lost[e.Round] = true
			}
		}
		m := f.join(admission.ServerPlace)
		all := f.joinAll()
		left := make(chan error, 1)
		go func() { left <- all[id].RunAndDrain(ctx) }()
		wait := f.start(append(append([]*node.Client(nil), all[:id]...), all[id+1:]...)...)
		out, err := f.server(m).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if err = <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the client ended with %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if list := charges(t, log); len(list) != 3 || lost[3] || out.Attempts.Released != 5 {
			t.Errorf("the client paid for %v and was lost from %v; %+v", list, lost, out.Attempts)
		}
	})
}
