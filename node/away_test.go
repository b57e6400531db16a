package node_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// Half of 20 clients are away for 30 s, three times in 20 rounds, and 14 are required. A round waits for them each time. An
// absence costs at most the round in progress, and no client is charged twice for a round.
func TestAbsentClientsAreAwaited(t *testing.T) {
	effort.LongOnly(t, "20 clients that start four times take seconds")
	const absences, half = 3, 10
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, "algorithm=lfl-sgdmf rank=2 rounds=20 tolerance=0.3 colluders=0.05 epsilon=5 deployment.stage-timeout-s=60 data="+ratings(t, 20, 12))
		m := f.join(admission.ServerPlace)
		clients := f.joinAll()
		leave := make(chan struct{}, absences)
		held := make(map[uint64]bool)
		f.watch = func(e protocol.Event) {
			switch {
			case e.Kind == protocol.RoundOpened && e.Round%6 == 3 && !held[e.Round]: // 3, 9 and 15; a held round opens twice
				leave <- struct{}{}
			case e.Kind == protocol.RoundHeld:
				held[e.Round] = true
			}
		}
		var back sync.WaitGroup
		back.Go(func() {
			present := clients[:half]
			for range absences {
				var stops []func()
				for _, x := range present {
					stops = append(stops, f.startStoppable(x))
				}
				<-leave
				for _, stop := range stops {
					stop()
				}
				time.Sleep(30 * time.Second)
				present = nil
				for id := range protocol.ClientID(half) {
					present = append(present, f.client(id, f.memberships[admission.ClientPlace(id)]))
				}
			}
			f.start(present...)()
		})
		wait := f.start(clients[half:]...)
		out, err := f.server(m).Run(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		wait()
		back.Wait()
		lost := out.Attempts.Opened - out.Attempts.Released
		t.Logf("%d of %d rounds lost", lost, out.Attempts.Opened)
		if out.Attempts.Opened != 20 || lost > absences || len(held) != absences {
			t.Errorf("%d rounds, %d lost, held %v; want 20 rounds, at most one lost in an absence, one held in each", out.Attempts.Opened, lost, held)
		}
		for id, l := range f.ledgers {
			if n := l.Charges(); n < 20-absences || n > 20 {
				t.Errorf("client %d was charged for %d rounds of 20", id, n)
			}
		}
	})
}
