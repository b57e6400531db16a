package node_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
	"github.com/fedsim/fedsim/sim"
)

// started is a federation whose sessions start from one another, deployed and simulated.
type started struct {
	*federation
	settings string
	server   *admission.Membership
	deployed server.Durable // the strategy of the session's server
	from     string         // folder of what the last session released; "": none yet
}

// session leads a session over the data to its end in the deployment and in the simulator. It wants one model, and one
// record to the byte.
func (s *started) session(data string, faults sim.Faults, away ...protocol.ClientID) {
	f := s.federation
	f.t.Helper()
	settings := s.settings + " data=" + data
	if s.from != "" {
		settings += " start-from=" + s.from
	}
	f.simulated, _ = f.experiment(settings, firstSession)
	f.likeSimulated(settings)
	f.strategy = func(x server.Durable) server.Durable { s.deployed = x; return x }
	var mu sync.Mutex
	ended := make(map[protocol.ClientID]*experiment.Party)
	f.trained = func(id protocol.ClientID, p client.Trainer) {
		mu.Lock()
		defer mu.Unlock()
		ended[id] = p.(*experiment.Party)
	}
	f.session(s.server, faults, away...)
	f.items = make(map[protocol.ClientID][]model.Embeddings)
	for id, p := range ended {
		f.items[id] = p.Result()
	}
	e, err := agreement.OpenFrom(f.public, f.simulated.Start)
	if err != nil {
		f.t.Fatal(err)
	}
	is, want := encodeRecord(f.t, e, s.deployed, nil), encodeRecord(f.t, f.simulated, f.ran.Strategy, s.trained())
	if e.About().Clients == algorithm.ItemParties { // whose items are in no server's record
		is = want
	}
	if !bytes.Equal(is, want) {
		f.t.Errorf("session %x: the record of %d bytes is another than the simulator's of %d", f.public.Session[:4], len(is), len(want))
	}
	s.from = filepath.Join(f.t.TempDir(), "model")
	if err := os.Mkdir(s.from, 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.from, lineage.File), is, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// trained is the model that the simulation ended with, as far as a record needs it.
func (s *started) trained() *model.Trained {
	if s.simulated.About().Clients != algorithm.ItemParties {
		return nil
	}
	shared := s.ran.Strategy.Model()
	trained, err := s.simulated.Final(s.ran, shared, protocol.Workers(1))
	if err != nil {
		s.t.Fatal(err)
	}
	return trained
}

// encodeRecord returns what the session of a strategy leaves.
func encodeRecord(t testing.TB, e *experiment.Experiment, s server.Strategy, trained *model.Trained) []byte {
	t.Helper()
	released, err := e.Record(s, trained, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := lineage.Encode(released)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A session starts from the releases of the session before, which the server alone has. Its model and its own record are
// the simulator's with start-from, to the bit. The third session has two more items and, of LFL, a client that was
// away in the second. An organisation with items of its own starts them from what it kept.
func TestSessionsStartFromReleases(t *testing.T) {
	for name, settings := range map[string]string{
		"lfl":       "algorithm=lfl-sgdmf rank=2 epsilon=5 rounds=1 contribution=all-ratings",
		"hfl":       "algorithm=hfl-sgdmf rank=2 accountant=rdp sampling-rate=0.5 epsilon=5 rounds=2 local-steps=2 parties=3 colluders=0.2",
		"vfl":       "algorithm=vfl-sgdmf rank=2 accountant=rdp sampling-rate=0.5 epsilon=5 rounds=2 local-steps=2 parties=3 colluders=0.2",
		"ssp-c":     "algorithm=ssp-c rank=2 epsilon=5 rounds=1 colluders=0.1 features=none",
		"dp-cmf":    "algorithm=dp-cmf rank=2 epsilon=5 rounds=1 colluders=0.1 features=" + features(t, 14),
		"dpals":     "algorithm=dpals rank=2 epsilon=5 rounds=1",
		"ada-dpals": "algorithm=ada-dpals rank=2 epsilon=5 rounds=1",
	} {
		t.Run(name, func(t *testing.T) {
			if name != "lfl" && name != "vfl" && name != "ssp-c" {
				effort.LongOnly(t, "its server is another of these three, and its start has tests of its own")
			}
			synctest.Test(t, func(t *testing.T) {
				data := ratings(t, 4, 12)
				settings += " " + quick
				s := &started{federation: newFederation(t, settings+"data="+data), settings: settings}
				s.server = s.join(admission.ServerPlace)
				s.joinAll()
				limit := s.simulated.Privacy.Budget
				limit.Epsilon = 100
				s.limit = &limit
				s.session(data, sim.Faults{})
				if name == "lfl" {
					asleep, faults := loses(t, 4)
					s.gather = 3 * time.Second
					s.session(data, faults, asleep)
					if err := s.client(asleep, s.memberships[admission.ClientPlace(asleep)]).Run(s.ctx); err != nil { // gets the end
						t.Fatal(err)
					}
				} else {
					s.session(data, sim.Faults{})
				}
				if name != "vfl" { // whose simulated parts are dealt anew with two more items
					data = ratings(t, 4, 14)
				}
				s.session(data, sim.Faults{})
				if n := len(s.simulated.Start.Sessions); n != 2 {
					t.Errorf("the third session depends on %d sessions", n)
				}
			})
		})
	}
}
