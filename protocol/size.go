package protocol

import "github.com/fedsim/fedsim/protocol/internal/codec"

// FrameHeader is the length in bytes of the header of each frame of a message on the
// wire, and FramePayload the most bytes of the message that a frame carries.
const (
	FrameHeader  = 5
	FramePayload = 256 << 10

	// LongMessage is the length in bytes from which a message may take longer on a slow line than a stage waits
	// for an answer.
	LongMessage = 64 << 10
)

// Size returns the length in bytes of a message on the wire, with the headers of its frames and
// without encryption of the transport. It is exact, except for the parts that only an ideal sum
// sends: it counts the parts of a real sum in their place. Packed counts as the vector, or the
// removal, of one release.
func Size(m Message) int {
	n := codec.Count(m.fields)
	return n + FrameHeader*max(1, (n+FramePayload-1)/FramePayload)
}

// PiggybackSize returns how many of a message's bytes belong to the message that travels with it.
// On its own, that message would take a frame's header more.
func PiggybackSize(m Message) int {
	r := Piggyback(m)
	if r == nil {
		return 0
	}
	n := codec.Count(r.fields)
	return 1 + codec.Varint(uint64(n)) + n
}

// PackedSize is the size in bytes of one client's vectors of the plan, every
// coordinate at the width of its ring.
func (p *Plan) PackedSize() int {
	n := 0
	for _, r := range p.Releases {
		n += r.packedSize()
	}
	return n
}

func (r Release) packedSize() int { return (r.Len*int(r.Width) + 7) / 8 }
