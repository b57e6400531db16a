package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// running is a relay that runs.
type running struct {
	*node.Relay
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
	f.hub.ID = ""
	f.startAggregator([]string{"/ip4/127.0.0.1/tcp/0"})
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
	config := node.RelayConfig{Identity: f.relayKeys[k], Federation: f.federation, Aggregator: f.contact,
		Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Log: f.log.With().Int("relay", k).Logger()}
	config.Over(f.network.option()...)
	ctx, cancel := context.WithCancel(f.t.Context())
	r, err := node.NewRelay(ctx, config)
	if err != nil {
		f.t.Fatal(err)
	}
	id, err := node.PeerID(f.relayKeys[k].Public().Ed25519())
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

const relayedSettings = "algorithm=lfl-sgdmf rank=2 rounds=3 stage1.epochs=1 stage1.step=.1 epsilon=50 deployment.stage-timeout-s=30 tolerance=0.3"

// A federation of processes with relays, over loopback, has the model that the simulator has without, to the bit.
func TestRelaysConform(t *testing.T) {
	for _, count := range []int{1, 3} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			f := newFederation(t, "data="+ratings(t, 12, 8)+" "+relayedSettings)
			f.withRelays(count)
			out := f.run()
			if want := f.simulate(sim.Faults{}); !bytes.Equal(out.Model, want.Model) {
				t.Error("the model is not the simulator's")
			}
		})
	}
}

// A relay that ends in the middle of a session is the loss of its clients for a round at the most: they dial the
// next relay, and all of them have the model at the end.
func TestRelayEndsMidway(t *testing.T) {
	f := newFederation(t, "data="+ratings(t, 12, 8)+" "+relayedSettings+" rounds=6 deployment.tail-s=1")
	relays := f.withRelays(4)
	var once sync.Once
	released, lost := 0, 0
	f.watch = func(e protocol.Event) {
		switch e.Kind {
		case protocol.IterationSummed:
			released++
		case protocol.ClientLost:
			lost++
		case protocol.StageClosed:
			if e.Iteration == 2 && e.Stage == protocol.StageShare || e.Iteration == 2 && e.Stage == protocol.StageMaskedInput {
				once.Do(func() { go relays[1].stop() })
			}
		default:
		}
	}
	out := f.run()
	if len(out.Model) == 0 || out.Attempts.Opened != 6 {
		t.Errorf("a model of %d bytes after %+v", len(out.Model), out.Attempts)
	}
	if released < 5 || lost < 3 {
		t.Errorf("%d rounds of 6 released a sum, %d clients were lost of 3 at the relay", released, lost)
	}
}

// Clients that relays have lost for good go on with the aggregator itself, if they are told of it.
func TestRelaysAndTheAggregator(t *testing.T) {
	f := newFederation(t, "data="+ratings(t, 12, 8)+" "+relayedSettings)
	f.withRelays(2)
	f.relays = append(f.relays, f.contact) // a third of the clients begin there
	out := f.run()
	if want := f.simulate(sim.Faults{}); !bytes.Equal(out.Model, want.Model) {
		t.Error("the model is not the simulator's")
	}
}

// Who is no relay of the aggregator's is not let in, and sessions in active mode are refused with relays.
func TestRelaysAreKnown(t *testing.T) {
	f := newFederation(t, "data="+ratings(t, 12, 8)+" "+relayedSettings)
	f.withRelays(1)
	f.relayKeys = append(f.relayKeys, f.key("stranger"))
	stranger := f.startRelay(1)
	time.Sleep(0)
	stranger.stop()
	for _, id := range f.aggregator.Connected() {
		if id.String() == stranger.contact.Peer {
			t.Error("a stranger is connected")
		}
	}
	active := newFederation(t, "data="+ratings(t, 12, 8)+" "+relayedSettings+" secagg=real mode=active")
	active.withRelays(1)
	server := active.server(active.join(admission.ServerPlace))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := make(chan error, 1)
	go func() { _, err := server.Run(ctx); wait <- err }()
	for _, c := range active.joinAll() {
		stop := active.startStoppable(c)
		defer stop()
	}
	if err := <-wait; err == nil {
		t.Error("a session in active mode went through with relays")
	}
}
