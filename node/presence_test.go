package node_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
)

// registers opens a stream as the holder of a place and registers on it.
func (f *federation) registers(p admission.Place) network.Stream {
	f.t.Helper()
	return f.opens(p, registration(), 20*time.Second)
}

// opens opens a stream as the holder of a place, for so long, and says something on it.
func (f *federation) opens(p admission.Place, say any, wait time.Duration) network.Stream {
	f.t.Helper()
	h := f.host(f.identity(p))
	f.t.Cleanup(func() { _ = h.Close() })
	if err := h.Connect(f.t.Context(), f.hub); err != nil {
		f.t.Fatal(err)
	}
	s, err := h.NewStream(f.t.Context(), f.hub.ID, peer.ProtocolID)
	if err != nil {
		f.t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(wait))
	text, err := json.Marshal(say)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err = s.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// notice is the text that the aggregator says next.
func (f *federation) notice(s network.Stream) []byte {
	f.t.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(s, head); err != nil {
		f.t.Fatal(err)
	}
	text := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(s, text); err != nil {
		f.t.Fatal(err)
	}
	return text
}

// welcome reads the aggregator's next welcome.
func (f *federation) welcome(s network.Stream) (connected, listed int) {
	f.t.Helper()
	text := f.notice(s)
	var n struct {
		Welcome struct {
			Connected int
			List      json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &n); err != nil {
		f.t.Fatal(err)
	}
	if n.Welcome.List == nil {
		return n.Welcome.Connected, -1
	}
	list, err := admission.ParseList(n.Welcome.List)
	if err != nil {
		f.t.Fatal(err)
	}
	return n.Welcome.Connected, len(list.Enrolments)
}

// The server is told of each client that comes, and shown what was added to the list since it was shown it last; a client is
// shown no list when it registers.
func TestServerIsShownAListOnce(t *testing.T) {
	f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
	f.join(admission.ServerPlace) // the aggregator is on the list already
	f.join(admission.ClientPlace(0))
	f.join(admission.ClientPlace(1))
	server := f.registers(admission.ServerPlace)
	heard := func(connected, listed int) {
		t.Helper()
		c, l := f.welcome(server)
		for c < connected && l < 0 { // it is told of its own arrival, too
			c, l = f.welcome(server)
		}
		if c != connected || l != listed {
			t.Errorf("the server hears of %d clients and a list of %d, want %d and %d (-1: none)", c, l, connected, listed)
		}
	}
	heard(0, 4)
	if c, l := f.welcome(f.registers(admission.ClientPlace(0))); c != 0 || l != -1 {
		t.Errorf("a client hears of %d clients and a list of %d, want 0 and none", c, l)
	}
	heard(1, -1)
	f.join(admission.ClientPlace(2))
	f.registers(admission.ClientPlace(2))
	heard(2, 1)
	f.registers(admission.ClientPlace(1))
	heard(3, -1)
}
