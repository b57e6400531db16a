package node_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// sharing is shared by the clients of a large federation, as by the clients of one process of
// fednode: who is enrolled.
type sharing struct {
	mu   sync.Mutex
	list *admission.Registry
	here chan struct{} // has a token for each client that has registered
}

// observer hears which clients have registered; nil for a nil sharing.
func (s *sharing) observer() session.Observer {
	if s == nil {
		return nil
	}
	return registrations{here: s.here}
}

type registrations struct {
	observer
	here chan struct{}
}

func (r registrations) Registered(change int) {
	if change > 0 {
		select {
		case r.here <- struct{}{}:
		default: // it comes back, and was counted
		}
	}
}

// registry is the common one, or one of a client's own.
func (s *sharing) registry(f *federation) *admission.Registry {
	if s == nil {
		return f.openRegistry()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = f.openRegistry()
	}
	return s.list
}

// openedLast is the experiment that clients have opened last, as the clients of one process of fednode share it.
type openedLast struct {
	mu     sync.Mutex
	text   []byte
	opened *experiment.Experiment
}

// experiment opens the experiment that a text describes.
func (r *openedLast) experiment(text []byte) (*experiment.Experiment, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened != nil && bytes.Equal(r.text, text) {
		return r.opened, nil
	}
	public, err := agreement.Decode(text)
	if err != nil {
		return nil, err
	}
	e, err := agreement.Open(public)
	if err == nil {
		r.text, r.opened = text, e
	}
	return e, err
}

// loadOnly skips a test that loads a machine for many minutes.
func loadOnly(t testing.TB, why string) {
	t.Helper()
	if !effort.Load() {
		t.Skipf("%s: %s=load runs it", why, effort.Variable)
	}
}

// 100 to 2,000 clients at 4 relays over loopback, each with a vector of half a megabyte, train the
// simulator's model, to the bit: FEDSIM_TEST_LONG=load, 3 GB for 500 and 12 GB for 2,000. Times of
// registering and of the round, and the memory, are logged.
//
// All clients compute at once here. On two cores 1,000 of them leave a connection waiting for
// seconds each time that it has to run. A connection that is not served within [peer.Patience] is
// lost, so above 500 clients a busy machine may lose some. Machines of their own do not have that.
// The test then says how many were lost, and the model cannot be the simulator's.
func TestFourRelays(t *testing.T) {
	loadOnly(t, "2,000 clients take many minutes and 12 GB")
	for _, clients := range []int{100, 500, 1000, 2000} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) { fourRelays(t, clients) })
	}
}

func fourRelays(t *testing.T, clients int) {
	const items, relays = 4000, 4
	dir := t.TempDir()
	line := func(u int) string {
		var b strings.Builder
		for k := range 10 {
			fmt.Fprintf(&b, "u%04d,i%04d,%d\n", u, (10*u+k)%items, 1+(u+k*k)%5)
		}
		return b.String()
	}
	var all strings.Builder
	all.WriteString("user,item,rating\n")
	own := make(map[protocol.ClientID]string)
	for u := range clients {
		all.WriteString(line(u))
		own[protocol.ClientID(u)] = filepath.Join(dir, fmt.Sprintf("u%04d.csv", u))
		if err := os.WriteFile(own[protocol.ClientID(u)], []byte("user,item,rating\n"+line(u)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "ratings.csv")
	if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFederationOver(t, nil, "data="+file+" algorithm=fmf-lfl rank=40 rounds=1 tolerance=0.3 secagg=real deployment.stage-timeout-s=3600 deployment.tail-s=3600",
		zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel))
	f.ctx, f.own, f.shares, f.gather = t.Context(), own, &sharing{here: make(chan struct{}, clients)}, time.Hour
	var opened, closed time.Time
	lost := 0
	f.watch = func(e protocol.Event) {
		switch e.Kind {
		case protocol.RoundOpened:
			opened = time.Now()
		case protocol.RoundSummed:
			closed = time.Now()
		case protocol.ClientLost:
			lost++
		default:
		}
	}
	began := time.Now()
	f.withRelays(relays)
	server := f.server(f.memberships[admission.ServerPlace])
	// Every client reads the whole list as it registers. That takes the time of thousands of
	// signatures, so only so many register at once that the last is done in time.
	var waits []func()
	joined := f.joinAll()
	for batch := range slices.Chunk(joined, 100) {
		waits = append(waits, f.start(batch...))
		for range batch {
			<-f.shares.here
		}
	}
	t.Logf("all have registered after %.0f s", time.Since(began).Seconds())
	out, err := server.Run(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range waits {
		wait()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d clients at %d relays: %.0f s from the first enrolment to the plan, a round of %.0f s; %d MiB from the system", clients, relays,
		opened.Sub(began).Seconds(), closed.Sub(opened).Seconds(), m.Sys>>20)
	fed, err := f.simulated.Federation()
	if err != nil {
		t.Fatal(err)
	}
	want, err := sim.Run(t.Context(), sim.Config{Session: fed.Session, Strategy: fed.Strategy, Trainers: fed.Trainers, Rounds: 1, Seed: seed, Workers: 2,
		Network: sim.Network{Up: 1e9, Down: 1e9, StageTimeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	switch same := bytes.Equal(out.Model, want.Model); {
	case lost > 0 && clients > 500:
		t.Logf("%d clients: %d were lost", clients, lost)
	case !same:
		t.Errorf("the model is not the simulator's; %d clients were lost", lost)
	}
}
