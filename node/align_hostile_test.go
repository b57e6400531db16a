package node_test

import (
	"testing"

	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// A member that sends a forbidden message on an alignment's stream is cut off, and all others
// align.
func TestAlignHostileMembers(t *testing.T) {
	x := newAlignment(t)
	turn := 0
	for name, says := range alignLies(t) {
		who := admission.ClientPlace(protocol.ClientID(turn % len(x.lists))) // each may come a few times only
		turn++
		s := x.speaks(x.identity(who), peer.AlignID)
		s.say(says(align.SeatOf(who.Client)))
		if !s.isCutOff() {
			t.Errorf("%s: not cut off", name)
		}
		s.close()
	}
	x.all()
}

// alignLies are messages that the holder of a seat must not send.
func alignLies(t *testing.T) map[string]func(own align.Seat) []byte {
	t.Helper()
	hello := func(s align.Seat) []byte {
		return framed(t, map[string]any{"hello": align.Hello{Seat: s, Key: make([]byte, 32), Count: 3, Signature: make([]byte, 64)}})
	}
	envelope := func(e align.Envelope) []byte { return framed(t, map[string]any{"envelope": e}) }
	said := map[string]func(align.Seat) []byte{
		"another's seat":    func(own align.Seat) []byte { return hello(own + 1) },
		"the server's seat": func(align.Seat) []byte { return hello(align.Server) },
		"no hello":          func(own align.Seat) []byte { return envelope(align.Envelope{From: own}) },
		"another's envelope": func(own align.Seat) []byte {
			return append(hello(own), envelope(align.Envelope{From: own + 1, To: own})...)
		},
		"a long envelope": func(own align.Seat) []byte {
			return append(hello(own), envelope(align.Envelope{From: own, Sealed: make([]byte, align.MaxSealed+1)})...)
		},
		"the server's word": func(own align.Seat) []byte {
			return append(hello(own), framed(t, map[string]any{"ended": align.Ended{Attempt: make([]byte, 32), Signature: make([]byte, 64)}})...)
		},
		"a second hello": func(own align.Seat) []byte { return append(hello(own), hello(own)...) },
	}
	for name, raw := range malformed(t) {
		said[name] = func(align.Seat) []byte { return raw }
		said[name+" behind a hello"] = func(own align.Seat) []byte { return append(hello(own), raw...) }
	}
	return said
}
