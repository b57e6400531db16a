package node_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// More clients than are tolerated stop while a round is computed. The round waits for them and costs no client more
// than one charge, and all rounds end in a sum of all clients.
func TestRoundWaitsForClientsThatStop(t *testing.T) {
	const stopped = 5 // of 8; 6 are required
	x := newTrial(t, "deployment.gather-s=60")
	server := x.server(x.join(admission.ServerPlace))
	all := x.clients(false)
	stops := make([]func(), stopped)
	for id := range stops {
		stops[id] = x.startStoppable(all[id])
	}
	var back sync.WaitGroup
	var again atomic.Bool // they have been started again
	held := make(chan struct{}, 10)
	x.watch = func(e protocol.Event) {
		x.heard(e)
		if e.Kind == protocol.RoundHeld && e.Round == 2 {
			held <- struct{}{}
		}
	}
	// Three of them stop before they have said that they are prepared, so that at most five have, and two perhaps after.
	silent := []admission.Place{admission.ClientPlace(2), admission.ClientPlace(3), admission.ClientPlace(4)}
	x.tap.rule(func(p *passing) {
		if p.kind() == protocol.KindPrepared && p.round() == 2 && !again.Load() && slices.Contains(silent, p.place) {
			p.cut = true
		}
	})
	moment{kind: protocol.KindPrepared, round: 2}.at(x.tap, &silent[0], func(*passing) {
		for _, stop := range stops {
			stop()
		}
		back.Go(func() {
			<-held
			again.Store(true)
			for id := range protocol.ClientID(stopped) { // their processes start again
				x.reread(id)
				c := x.client(id, x.memberships[admission.ClientPlace(id)])
				back.Go(func() {
					if err := c.Run(x.ctx); err != nil {
						t.Errorf("client %d, started again: %v", id, err)
					}
				})
			}
		})
	})
	wait := x.start(all[stopped:]...)
	out, err := server.Run(x.ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	back.Wait()
	x.wants(out, 4)
	for i := uint64(1); i <= 4; i++ {
		if got := x.oracle.of(i); len(got) != clients {
			t.Errorf("the sum of round %d is of %v; want all %d clients", i, got, clients)
		}
	}
	for id := range protocol.ClientID(clients) {
		list := charges(t, x.logs[id])
		x.oracle.checkLedger(id, list)
		if len(list) != 4 {
			t.Errorf("client %d was charged %d times, want once a round", id, len(list))
		}
	}
}

// reread has a client read its ledger as it is on disk.
func (x *trial) reread(id protocol.ClientID) {
	x.t.Helper()
	var err error
	if x.ledgers[id], err = store.NewLedger(x.logs[id]); err != nil {
		x.t.Fatal(err)
	}
}
