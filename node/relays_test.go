package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	libp2ppeer "github.com/libp2p/go-libp2p/core/peer"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// running is a relay that runs.
type running struct {
	*hub.Relay
	contact admission.Contact
	stop    func() // and wait for its end
}

// withRelays has relays stand between the aggregator, which is started anew, and clients that are made from
// now on.
func (f *federation) withRelays(n int) []*running {
	f.t.Helper()
	_ = f.aggregator.Close()
	for k := range n {
		f.relayKeys = append(f.relayKeys, f.key(fmt.Sprint("relay ", k)))
	}
	f.join(admission.ServerPlace) // relays get the list as they register
	for id := range protocol.ClientID(f.federation.Clients) {
		f.join(admission.ClientPlace(id))
	}
	f.hub.ID = ""
	f.startAggregator([]string{"/ip4/127.0.0.1/tcp/0"})
	for _, m := range f.memberships {
		m.Contact = f.contact // it is elsewhere now
	}
	var out []*running
	for k := range n {
		r := f.startRelay(k)
		out = append(out, r)
		f.relays = append(f.relays, r.contact)
	}
	return out
}

// startRelay starts the relay with the k-th key.
func (f *federation) startRelay(k int) *running {
	f.t.Helper()
	config := hub.RelayConfig{Identity: f.relayKeys[k], Federation: f.federation, Aggregator: f.contact,
		Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Log: f.log.With().Int("relay", k).Logger(), Transports: f.network.option()}
	ctx, cancel := context.WithCancel(f.t.Context())
	r, err := hub.NewRelay(ctx, config)
	if err != nil {
		f.t.Fatal(err)
	}
	id, err := peer.IDOf(f.relayKeys[k].Public().Ed25519())
	if err != nil {
		f.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
			f.t.Errorf("relay %d: %v", k, err)
		}
	}()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			_ = r.Close()
			<-done
		})
	}
	f.t.Cleanup(stop)
	return &running{r, admission.Contact{Addresses: r.Addresses(), Peer: id.String()}, stop}
}

// registered waits until the relay has registered with the aggregator.
func (r *running) registered(f *federation) {
	f.t.Helper()
	for r.Check() != nil {
		time.Sleep(time.Millisecond) // a relay has no sign of it but Check
		if f.ctx.Err() != nil {
			f.t.Fatal(r.Check())
		}
	}
}

const relayedSettings = "algorithm=lfl-sgdmf epsilon=10 contribution=all-ratings rounds=2 tolerance=0.34 deployment.stage-timeout-s=20 secagg=real"

// A federation of processes with relays, over loopback, has the model that the simulator has without, to the bit.
func TestRelaysConform(t *testing.T) {
	for _, count := range []int{1, 3} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			f := newLoopbackFederation(t, "data="+ratings(t, 6, 8)+" "+relayedSettings)
			f.withRelays(count)
			out := f.run()
			if want := f.simulate(sim.Faults{}); !bytes.Equal(out.Model, want.Model) {
				t.Error("the model is not the simulator's")
			}
		})
	}
}

// A client that has enrolled is known to the relays at once: the first connection to one is accepted.
func TestRelaysKnowWhoHasEnrolled(t *testing.T) {
	f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
	_ = f.aggregator.Close()
	f.relayKeys = append(f.relayKeys, f.key("relay"))
	f.join(admission.ServerPlace)
	f.join(admission.ClientPlace(0))
	f.hub.ID = ""
	f.startAggregator([]string{"/ip4/127.0.0.1/tcp/0"})
	relay := f.startRelay(0)
	at := func(id protocol.ClientID) error {
		h := f.host(f.identity(admission.ClientPlace(id)))
		defer h.Close() //nolint:errcheck // nothing is left to be lost
		to, err := libp2ppeer.AddrInfoFromString(relay.Addresses()[0])
		if err == nil {
			err = h.Connect(t.Context(), *to)
		}
		if err != nil {
			return err
		}
		s, err := h.NewStream(t.Context(), to.ID, peer.ProtocolID)
		if err == nil {
			_, err = session.Greet(s, f.openRegistry(), session.Register{Version: peer.ProtocolID})
		}
		return err
	}
	relay.registered(f)
	if err := at(0); err != nil {
		t.Errorf("client 0 dials the relay: %v", err)
	}
	for id := protocol.ClientID(1); id < 4; id++ {
		place := admission.ClientPlace(id)
		i := f.invite(place, f.now().Add(time.Hour))
		f.admit(i)
		if _, err := node.Enrol(t.Context(), i, f.identity(place), f.log, f.network.option()...); err != nil {
			t.Fatal(err)
		}
		if err := at(id); err != nil {
			t.Errorf("client %d dials the relay: %v", id, err)
		}
	}
}

// A relay that ends in the middle of a round is the loss of the clients whose vectors it held, which are tolerated: every
// round releases its sum. Its clients dial the next relay, and all of them have the model at the end.
func TestRelayEndsMidway(t *testing.T) {
	f := newFederation(t, "data="+ratings(t, 6, 8)+" "+relayedSettings+" rounds=6 deployment.tail-s=1")
	relays := f.withRelays(4)
	for _, r := range relays { // a relay that does not know its clients yet would send them to the next
		r.registered(f)
	}
	var once sync.Once
	released, ended := 0, false
	var lost []string // round and stage
	f.watch = func(e protocol.Event) {
		switch e.Kind {
		case protocol.RoundSummed:
			released++
		case protocol.ClientLost:
			lost = append(lost, fmt.Sprint(e.Round, e.Stage))
		case protocol.StageClosed:
			if e.Round == 2 && e.Stage == protocol.StageMaskedInput { // while answers to unmask arrive
				once.Do(func() { relays[1].stop(); ended = true })
			}
		default:
		}
	}
	out := f.run()
	if len(out.Model) == 0 || out.Attempts.Opened != 6 {
		t.Errorf("a model of %d bytes after %+v", len(out.Model), out.Attempts)
	}
	if released != 6 || !ended {
		t.Errorf("%d rounds of 6 released a sum, the relay has ended: %v", released, ended)
	}
	if want := fmt.Sprint(2, protocol.StageUnmask); !slices.Contains(lost, want) {
		t.Errorf("clients were lost in %q, want those of the relay in %q", lost, want)
	}
}

// Clients that have lost their relays for good continue with the aggregator itself, if they are
// told of it.
func TestRelaysAndTheAggregator(t *testing.T) {
	f := newFederation(t, "data="+ratings(t, 6, 8)+" "+relayedSettings)
	f.withRelays(2)
	f.relays = append(f.relays, f.contact) // a third of the clients begin there
	out := f.run()
	if want := f.simulate(sim.Faults{}); !bytes.Equal(out.Model, want.Model) {
		t.Error("the model is not the simulator's")
	}
}

// spoken tells of the first line of a log that has some words.
type spoken struct {
	words string
	heard chan struct{}
	once  sync.Once
}

func (s *spoken) Write(line []byte) (int, error) {
	if strings.Contains(string(line), s.words) {
		s.once.Do(func() { close(s.heard) })
	}
	return len(line), nil
}

// A session in active mode is refused by an aggregator that has relays: the server is told why, and ends.
func TestActiveModeTakesNoRelays(t *testing.T) {
	f := newFederationOver(t, nil, "data="+ratings(t, 6, 8)+" "+relayedSettings+" tolerance=0.2 mode=active", zerolog.Nop())
	f.withRelays(1)
	server := f.server(f.memberships[admission.ServerPlace])
	for _, c := range f.joinAll() {
		defer f.startStoppable(c)()
	}
	if _, err := server.Run(f.ctx); !errors.Is(err, session.ErrRefused) || !strings.Contains(err.Error(), "active mode, and this aggregator has relays") ||
		!strings.Contains(err.Error(), "asking again") {
		t.Errorf("the server ends with %v, want %v, why, and that asking again is of no use", err, session.ErrRefused)
	} else if !cli.IsMisuse(err) {
		t.Error("a supervisor would start it again: the exit code is not that of a wrong call")
	}
}

// A stranger that claims to be a relay of the aggregator is not let in: it has no connection to
// tell of clients over.
func TestStrangersAreNoRelays(t *testing.T) {
	refused := &spoken{words: "no connection to the aggregator", heard: make(chan struct{})}
	f := newFederationOver(t, nil, "data="+ratings(t, 6, 8)+" "+relayedSettings, zerolog.New(refused))
	f.relayKeys = append(f.relayKeys, f.key("stranger")) // after the aggregator was started
	stranger := f.startRelay(0)
	select {
	case <-refused.heard:
	case <-f.ctx.Done():
		t.Fatal("the stranger has a connection")
	}
	stranger.stop()
}

// One session follows another through relays. Clients that wait for the next session are counted,
// also by relays that have the end of the last. A client that was away finds the model there.
func TestSessionsThroughRelays(t *testing.T) {
	f := newFederation(t, "data="+ratings(t, 4, 12)+" algorithm=fmf-lfl rounds=2 tolerance=0.25 deployment.stage-timeout-s=20 deployment.tail-s=1")
	f.gather = time.Second // for a client that is away
	f.withRelays(2)
	server := f.memberships[admission.ServerPlace]
	const away = 3
	away1 := make([]*node.Client, 0, 1)
	var there []*node.Client
	for id := range protocol.ClientID(4) {
		c := f.client(id, f.memberships[admission.ClientPlace(id)])
		if id == away {
			away1 = append(away1, c)
		} else {
			there = append(there, c)
		}
	}
	wait := f.start(there...)
	first, err := f.server(server).Run(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	f.start(away1...)() // it ends with the model of a session that it was not in
	f.next(9, "algorithm=fmf-lfl rounds=3 tolerance=0.25 deployment.stage-timeout-s=20")
	f.gather = time.Minute
	f.session(server, sim.Faults{})
	if len(first.Model) == 0 {
		t.Error("the first session has no model")
	}
}

// A relay without a connected client at the end of the session is told of the end. A client that
// connects to it later gets the model, and a client that waits for the next session is counted.
func TestRelayWithoutClientsHearsTheEnd(t *testing.T) {
	f := newFederation(t, "data="+ratings(t, 4, 12)+" algorithm=fmf-lfl rounds=2 tolerance=0.25 deployment.stage-timeout-s=20 deployment.tail-s=1")
	f.gather = time.Second // for a client that is away
	f.withRelays(2)
	busy, idle := f.relays[:1], f.relays[1:]
	f.relays = busy
	var there []*node.Client
	for id := range protocol.ClientID(3) {
		there = append(there, f.client(id, f.memberships[admission.ClientPlace(id)]))
	}
	f.relays = idle
	late := f.client(3, f.memberships[admission.ClientPlace(3)])
	server := f.memberships[admission.ServerPlace]
	wait := f.start(there...)
	if _, err := f.server(server).Run(f.ctx); err != nil {
		t.Fatal(err)
	}
	wait()
	f.start(late)()
	f.next(9, "algorithm=fmf-lfl rounds=3 tolerance=0.25 deployment.stage-timeout-s=20")
	f.gather, f.relays = time.Minute, append(busy, idle...)
	f.session(server, sim.Faults{})
}

// Clients that enrol while a relay waits are let in by it.
func TestRelaysLearnWhoIsEnrolled(t *testing.T) {
	f := newFederation(t, "data="+ratings(t, 4, 12)+" algorithm=fmf-lfl rounds=2 tolerance=0.25 deployment.stage-timeout-s=20")
	f.relayKeys = append(f.relayKeys, f.key("relay 0"))
	_ = f.aggregator.Close()
	f.hub.ID = ""
	f.startAggregator([]string{"/ip4/127.0.0.1/tcp/0"})
	r := f.startRelay(0)
	f.relays = append(f.relays, r.contact)
	var tickets []admission.Ticket
	var invitations []*admission.Invitation
	for _, place := range []admission.Place{admission.ServerPlace, admission.ClientPlace(0), admission.ClientPlace(1), admission.ClientPlace(2), admission.ClientPlace(3)} {
		i := f.invite(place, f.now().Add(time.Hour))
		tickets, invitations = append(tickets, i.Ticket), append(invitations, i)
	}
	if err := f.aggregator.Admit(tickets); err != nil {
		t.Fatal(err)
	}
	for _, i := range invitations {
		m, err := node.Enrol(f.ctx, i, f.identity(i.Ticket.Place), f.log, f.network.option()...)
		if err != nil {
			t.Fatal(err)
		}
		f.memberships[i.Ticket.Place] = m
	}
	out := f.run()
	if want := f.simulate(sim.Faults{}); !bytes.Equal(out.Model, want.Model) {
		t.Error("the model is not the simulator's")
	}
}

// A relay that has lost the aggregator sends its clients away. They continue with the next relay.
func TestRelayThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, "data="+ratings(t, 4, 12)+" algorithm=fmf-lfl rounds=2 tolerance=0.25 deployment.stage-timeout-s=20")
		f.withRelays(2)
		synctest.Wait() // until they know who is enrolled
		_ = f.aggregator.Close()
		f.relayKeys = f.relayKeys[1:]
		address, _, _ := strings.Cut(f.contact.Addresses[0], "/p2p/")
		f.startAggregator([]string{address}) // which does not know the first any more
		began := time.Now()
		out := f.run()
		if want := f.simulate(sim.Faults{}); !bytes.Equal(out.Model, want.Model) {
			t.Error("the model is not the simulator's, of all clients")
		}
		// They are sent away when 15 s between dials and 20 s of dialling have passed.
		if took := time.Since(began); took < 35*time.Second || took > 55*time.Second {
			t.Errorf("clients of the relay that is cut off went on with the other after %v", took)
		}
	})
}
