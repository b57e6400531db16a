//go:build unix

package command

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/sim"
)

// Processes with relays between clients and the aggregator end with the simulator's model, to the bit: noise, which
// processes draw from the system, is off. 400 clients at 4 relays, each with vectors of half a megabyte, take
// minutes, so they are for FEDSIM_TEST_LONG=load; what each process took is logged. (2,000 clients are too many for the memory
// of one machine, since each process keeps who is enrolled for each of its clients; in one process they are in package node.)
func TestRelayProcesses(t *testing.T) {
	l, relays, rank := load{clients: 6, processes: 2, items: 50, whole: 2, stage: 30}, 2, 2
	if effort.Load() {
		l, relays, rank = load{clients: 400, processes: 4, items: 4000, whole: 3, stage: 1800}, 4, 40
	} else {
		effort.NotShort(t, "starts processes")
	}
	m := newMachine(t)
	m.writeEveryItem(l)
	m.write("load.yaml", fmt.Sprintf(`algorithm: fmf-lfl
contribution: all-ratings
data: %s
epsilon: inf
rank: %d
rounds: %d
tolerance: 0.3
secagg: real
rating-min: 0.5
rating-max: 5
deployment:
  stage-timeout-s: %d
  gather-s: %d
`, m.path("ratings.csv"), rank, l.whole, l.stage, l.stage))
	f := m.foundRelays(l, relays)
	server := m.follow("server", m.path("load.yaml"), "--items", m.path("items"), "--invitation", m.path("invitations/server.json"),
		"--state", m.path("server"), "--out", m.path("model"))
	first := f.aggregator.summed(1)
	last := f.aggregator.summed(l.whole)
	server.end()
	for _, c := range f.clients {
		c.end()
	}
	took := []*followed{f.aggregator, server}
	for _, r := range f.relays {
		r.signal(syscall.SIGTERM)
		r.end()
		took = append(took, r)
	}
	f.aggregator.signal(syscall.SIGTERM)
	f.aggregator.end()
	t.Logf("%d clients, %d relays, %d rounds: a round of %.1f s", l.clients, relays, l.whole, last.Sub(first).Seconds()/float64(l.whole-1))
	for _, p := range append(took, f.clients...) {
		s := p.cmd.ProcessState
		t.Logf("%s: %.1f s of processor time, %d MiB at most", p.cmd.Args[1], (s.UserTime() + s.SystemTime()).Seconds(), p.peak()>>20)
	}
	got, err := os.ReadFile(m.path("model/shared.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if want := m.simulated(l); !bytes.Equal(got, want) {
		t.Errorf("the model, of %d bytes, is not the simulator's, of %d", len(got), len(want))
	}
}

// writeEveryItem is writeData with a rating of every item: a simulation knows no other items.
func (m *machine) writeEveryItem(l load) {
	m.writeData(l)
	var ratings strings.Builder
	ratings.WriteString("userId,movieId,rating,timestamp\n")
	for u := range l.clients {
		for k := range 10 {
			fmt.Fprintf(&ratings, "%d,%d,%d.0,0\n", u+1, (10*u+k)%l.items+1, 1+(u+k*k)%5)
		}
	}
	m.write("ratings.csv", ratings.String())
}

// foundRelays founds a federation of which all clients are connected to relays, in a process for each.
func (m *machine) foundRelays(l load, relays int) *relayedLoad {
	m.t.Helper()
	f := &relayedLoad{loaded: loaded{m: m, began: time.Now()}}
	address := "/ip4/127.0.0.1/tcp/" + testutil.Port(m.t)
	_, id := m.founds(l.clients, address)
	lead := []string{"aggregator", "--key", m.path("aggregator.key"), "--federation", m.path("federation.json"), "--state", m.path("aggregator"),
		"--tickets", m.path("invitations/tickets.json"), "--invitation", m.path("invitations/aggregator.json"), "--listen", address, "--ops", ""}
	var dials, listens []string
	for k := range relays {
		relay, name := m.key(fmt.Sprintf("relay-%d.key", k))
		lead = append(lead, "--relay", relay)
		listens = append(listens, "/ip4/127.0.0.1/tcp/"+testutil.Port(m.t))
		dials = append(dials, "--relay", listens[k]+"/p2p/"+name)
	}
	f.aggregator = m.follow(lead...)
	f.aggregator.said("entered in the list", 1)
	for k := range relays {
		r := m.follow("relay", "--key", m.path(fmt.Sprintf("relay-%d.key", k)), "--federation", m.path("federation.json"),
			"--aggregator", address+"/p2p/"+id, "--listen", listens[k])
		r.said("registered with the aggregator", 1)
		f.relays = append(f.relays, r)
	}
	each := l.clients / l.processes
	for k := range l.processes {
		f.clients = append(f.clients, m.follow(append([]string{"client", "--data", m.path("ratings.csv"), "--users", fmt.Sprintf("%d..%d", k*each, (k+1)*each-1),
			"--invitations", m.path("invitations"), "--state", m.path("clients-" + itoa(k)), "--max-epsilon", "inf", "--unit", "any"}, dials...)...))
	}
	for _, c := range f.clients {
		c.said("registered", each)
	}
	return f
}

// relayedLoad has relays besides.
type relayedLoad struct {
	loaded
	relays []*followed
}

// simulated is the model of the same experiment without a network, or relays.
func (m *machine) simulated(l load) []byte {
	m.t.Helper()
	said, err := config.ReadFile(m.path("load.yaml"))
	if err != nil {
		m.t.Fatal(err)
	}
	c, err := config.Resolve(said)
	if err != nil {
		m.t.Fatal(err)
	}
	deployed, err := algorithm.Deployed(c)
	if err != nil {
		m.t.Fatal(err)
	}
	deployed.Take(algorithm.Data.Key, c)
	e, err := experiment.Open(m.t.Context(), deployed, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	fed, err := e.Federation()
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := sim.Run(m.t.Context(), sim.Config{Session: fed.Session, Strategy: fed.Strategy, Trainers: fed.Trainers, Rounds: l.whole, Seed: 1,
		Workers: 2, Network: sim.Network{Up: 1e9, Down: 1e9, StageTimeout: time.Hour}})
	if err != nil {
		m.t.Fatal(err)
	}
	return out.Model
}
