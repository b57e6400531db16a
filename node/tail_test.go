package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// patient are settings in which a stage that waits out its timeout is not to be overlooked.
const patient = "algorithm=lfl-sgdmf rank=2 rounds=5 tolerance=0.3 colluders=0.05 deployment.stage-timeout-s=600 "

// A place is vacant: five rounds take no longer than with every client.
func TestVacantPlaceTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtualFederation(t, patient+"data="+ratings(t, 8, 12))
		f.gather = 50 * time.Millisecond
		m := f.join(admission.ServerPlace)
		wait := f.start(f.joinAll()[1:]...)
		began := time.Now()
		out, err := f.server(m).Run(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		wait()
		if out.Attempts.Opened != 5 || out.Attempts.Released != 5 {
			t.Errorf("attempts %+v, want 5 of 5", out.Attempts)
		}
		if took > 500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// A client is gone for good in the second of five rounds, without a word: that costs
// less than two seconds in all.
func TestKilledClientTakesSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtualFederation(t, patient+"data="+ratings(t, 8, 12))
		m := f.join(admission.ServerPlace)
		clients := f.joinAll()
		wait := f.start(clients[1:]...)
		kill, summed := f.startStoppable(clients[0]), 0
		f.watch = func(e protocol.Event) {
			if e.Kind == protocol.RoundOpened && e.Round == 2 {
				go kill()
			}
			if e.Kind == protocol.RoundSummed {
				summed++
			}
		}
		began := time.Now()
		if _, err := f.server(m).Run(f.ctx); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		wait()
		if summed != 5 {
			t.Errorf("%d sums, want 5", summed)
		}
		if took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
