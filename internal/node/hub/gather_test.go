package hub

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// A server waits for clients; one has come and the others may never come. The aggregator does not
// disconnect it: its own setting says how long it waits, up to a week.
func TestServerGathersForAsLongAsItLikes(t *testing.T) {
	key, err := admission.GenerateKey(simulated.New(1, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := admission.NewFederation(key, "Test", 3, time.Unix(0, 0), simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := admission.OpenRegistry(f, store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDOf(key.Public().Ed25519())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := &conn{place: admission.ServerPlace, peer: id, link: newLink(nodetest.Pipe{End: ours}, peer.QueueSize), presence: make(chan struct{}, 1)}
		a := &Aggregator{cfg: AggregatorConfig{Federation: f, Registry: r}, heads: store.NewHeads(), ctx: t.Context(), now: time.Now, conns: map[admission.Place]*conn{admission.ServerPlace: c}}
		server, ended := nodetest.Pipe{End: theirs}, make(chan error, 1)
		go func() { ended <- a.serveServer(c) }()
		a.announcePresence()
		if m, err := session.Hear(server, 1<<20); err != nil || m.Welcome == nil {
			t.Fatalf("a client came, and the server hears %+v, %v", m, err)
		}
		time.Sleep(7 * 24 * time.Hour)
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the server was let go while it waited: %v", err)
		default:
		}
		// It is still heard: what it publishes is refused for what it says.
		if err := session.Say(server, &session.Message{Publish: &session.Signed{Descriptor: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
		if m, err := session.Hear(server, 1<<20); err == nil || !strings.Contains(err.Error(), "not signed by the server") {
			t.Errorf("the server hears %+v, %v", m, err)
		}
		_ = theirs.Close()
		if err := <-ended; err == nil {
			t.Error("what is refused ends well")
		}
	})
}
