package node_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	libp2pprotocol "github.com/libp2p/go-libp2p/core/protocol"

	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// speaker is a peer that says what a party's process would not.
type speaker struct {
	t      testing.TB
	host   host.Host
	stream network.Stream
}

// speaks opens a stream with a given key.
func (f *federation) speaks(k admission.PrivateKey, on libp2pprotocol.ID) *speaker {
	f.t.Helper()
	s := &speaker{t: f.t, host: f.host(k)}
	info := f.hub
	err := s.host.Connect(f.t.Context(), info)
	if err == nil {
		s.stream, err = s.host.NewStream(f.t.Context(), info.ID, on)
	}
	if err == nil {
		err = s.stream.SetDeadline(time.Now().Add(time.Minute))
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (s *speaker) say(raw []byte) {
	_, _ = s.stream.Write(raw) // it may be cut off on the way
}

// hear is the next notice.
func (s *speaker) hear() map[string]json.RawMessage {
	s.t.Helper()
	_, n, err := readNotice(s.stream)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// isCutOff reads to the end of the stream, which is to come by itself.
func (s *speaker) isCutOff() bool {
	b := make([]byte, 4096)
	for {
		if _, err := s.stream.Read(b); err != nil {
			return !os.IsTimeout(err)
		}
	}
}

func (s *speaker) close() { _ = s.host.Close() }

// malformed are things to say in place of a notice.
func malformed(t testing.TB) map[string][]byte {
	t.Helper()
	length := func(n uint32, rest string) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	random := make([]byte, 300)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(random)
	random[0], random[1] = 0, 0 // a length that is allowed
	return map[string][]byte{
		"oversized":     length(1<<32-1, "{"),
		"not JSON":      length(4, "}{}{"),
		"random":        append(length(296, ""), random[4:]...),
		"empty":         length(0, ""),
		"unknown field": framed(t, map[string]any{"register": map[string]any{"version": peer.ProtocolID, "life": [16]byte{}}, "more": 1}),
		"deep":          length(4000, strings.Repeat(`{"register":`, 333)+"1234"),
		"nothing in it": framed(t, map[string]any{}),
		"out of turn":   framed(t, map[string]any{"welcome": map[string]any{"life": [16]byte{}, "list": map[string]any{}}}),
	}
}

// malformedFrames are things to say in place of a message.
func malformedFrames(t testing.TB) map[string][]byte {
	t.Helper()
	good, err := wire.AppendFrames(nil, &protocol.Consistency{Round: 1, Signature: make([]byte, 64)})
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"unknown kind": {99, 0, 0, 0, 1, 0},
		"no kind":      make([]byte, 64),
		"oversized":    {byte(protocol.KindAdvertise) + 1, 255, 255, 255, 255},
		"of a server":  append([]byte{byte(protocol.KindOpen) + 1, 0, 255, 0, 0}, make([]byte, 1<<16)...),
		"another next": append(bytes.Clone(good[:5]), 0xff),
	}
}

// An invited or enrolled peer that sends nonsense is cut off, whether it stays to hear so or not.
// The session of the others is the same as without it.
func TestGarbageIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, lfl+"deployment.stage-timeout-s=20 rounds=2 data="+ratings(t, 4, 12))
		i := f.invite(admission.ClientPlace(2), time.Now().Add(time.Hour))
		f.admit(i)
		f.join(admission.ClientPlace(3))
		f.join(admission.ServerPlace)
		hostile := map[string]struct {
			key    admission.PrivateKey
			on     libp2pprotocol.ID
			before func(*speaker) // what it says properly
		}{
			"enrolling":    {i.Key, peer.EnrolID, func(*speaker) {}},
			"registering":  {f.identity(admission.ClientPlace(3)), peer.ProtocolID, func(*speaker) {}},
			"as a server":  {f.identity(admission.ServerPlace), peer.ProtocolID, func(s *speaker) { s.say(framed(t, registration())); s.hear() }},
			"registering2": {f.identity(admission.ServerPlace), peer.ProtocolID, func(*speaker) {}},
		}
		for who, h := range hostile {
			for what, raw := range malformed(t) {
				s := f.speaks(h.key, h.on)
				h.before(s)
				s.say(raw)
				if !s.isCutOff() {
					t.Errorf("%s: %s was not cut off", who, what)
				}
				s.close()
				// The message is truncated, from a peer that leaves.
				s = f.speaks(h.key, h.on)
				h.before(s)
				s.say(raw[:len(raw)/2])
				s.close()
			}
		}
		clients := f.joinAll()
		server := f.server(f.memberships[admission.ServerPlace])
		wait := f.start(clients...)
		out, err := server.Run(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if want := f.simulate(sim.Faults{}).Model; !bytes.Equal(out.Model, want) {
			t.Errorf("the model is\n%x, the simulator's\n%x", out.Model, want)
		}
		// The session is over: an enrolled client is told so, and speaks in frames from then on.
		for what, raw := range malformedFrames(t) {
			s := f.speaks(f.identity(admission.ClientPlace(3)), peer.ProtocolID)
			s.say(framed(t, registration()))
			for heard := s.hear(); ; heard = s.hear() {
				if _, told := heard["session"]; told {
					break
				}
			}
			s.say(framed(t, map[string]any{"ready": map[string]any{}}))
			s.say(raw)
			if what == "another next" { // half a message
				_ = s.stream.CloseWrite()
			}
			if !s.isCutOff() {
				t.Errorf("in a session: %s was not cut off", what)
			}
			s.close()
		}
		_ = f.aggregator.Close()
		if n := f.network.connections(); n > 0 {
			t.Errorf("%d ends of connections are open", n)
		}
	})
}
