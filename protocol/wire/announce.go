package wire

import (
	"google.golang.org/protobuf/proto"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire/internal/wirepb"
)

// Announcer makes the frames of announcements. The frames for one plan share the bytes of
// the plan and its model, however many clients get one with their own delivery. The zero
// value is ready for use; it is not safe for concurrent use.
type Announcer struct {
	plan  *protocol.Plan
	bytes []byte // an announcement of the plan and nothing else
}

// Frames returns the bytes of AppendFrames, in pieces to be written one after the other. They must
// not be changed. It returns the errors of AppendFrames.
func (a *Announcer) Frames(m *protocol.Announce) ([][]byte, error) {
	e := encoder{cursor{kind: m.Kind()}}
	out := e.announce(m)
	if e.err != nil {
		return nil, e.err
	}
	d := decoder{cursor: cursor{kind: m.Kind()}, limits: unlimited}
	if d.announce(out); d.err != nil {
		return nil, d.err
	}
	if a.bytes == nil || a.plan != m.Plan {
		b, err := proto.Marshal(&wirepb.Announce{Plan: out.GetPlan()})
		if err != nil {
			return nil, err
		}
		a.plan, a.bytes = m.Plan, b
	}
	// Fields are encoded one behind the other, so what is encoded apart may be joined.
	own, err := proto.Marshal(&wirepb.Announce{Delivery: out.GetDelivery(), Anew: out.GetAnew()})
	if err != nil {
		return nil, err
	}
	return frames(m.Kind(), a.bytes, own)
}
