package node_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// patient are settings in which a stage that waits out its timeout is not to be overlooked.
const patient = "algorithm=lfl-sgdmf rank=2 rounds=5 tolerance=0.3 colluders=0.05 deployment.stage-timeout-s=600 "

// A place is vacant: five rounds take no longer than with every client.
func TestVacantPlaceTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, patient+"data="+ratings(t, 4, 12))
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
		f := newFederation(t, patient+"data="+ratings(t, 4, 12))
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

// hung is a trainer that never ends.
type hung struct {
	client.Trainer
	released chan struct{}
}

func (h *hung) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	<-h.released
	return h.Trainer.Contribute(p, src, run)
}

// A client is connected and answers nothing in eight rounds: three of them wait for it, 10 s each, and the log says
// so once.
func TestSilentClientCostsThreeTails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, strings.Replace(patient, "rounds=5", "rounds=8", 1)+"data="+ratings(t, 4, 12))
		m := f.join(admission.ServerPlace)
		released := make(chan struct{})
		f.trainer = func(id protocol.ClientID, own client.Trainer) client.Trainer {
			if id == 0 {
				return &hung{own, released}
			}
			return own
		}
		clients := f.joinAll()
		wait := f.start(clients[1:]...)
		stop := f.startStoppable(clients[0])
		summed, silent := 0, 0
		f.watch = func(e protocol.Event) {
			switch e.Kind {
			case protocol.RoundSummed:
				summed++
			case protocol.ClientSilent:
				silent++
			default:
			}
		}
		began := time.Now()
		_, err := f.server(m).Run(f.ctx)
		took := time.Since(began)
		close(released)
		stop()
		wait()
		if err != nil || summed != 8 || silent != 1 {
			t.Errorf("%v, %d sums, want 8; %d events say that it is silent, want 1", err, summed, silent)
		}
		if took < 30*time.Second || took > 33*time.Second {
			t.Errorf("it took %v, want 30 s and little more", took)
		}
	})
}
