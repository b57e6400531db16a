package wire

import (
	"fmt"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire/internal/wirepb"
)

// The message inside a Forward is encoded on its own, so that the relay need not understand it. A
// fault in it is an error of the field message.

func (e *encoder) forward(m *protocol.Forward) *wirepb.Forward {
	out := &wirepb.Forward{Client: uint32(m.Client), Held: m.Held, Opens: m.Opens}
	if m.Message == nil {
		return out
	}
	if forwards(m.Message.Kind()) {
		e.fail(ErrSyntax, "kind", "%s does not travel inside", m.Message.Kind())
		return nil
	}
	b, err := marshal(m.Message, m.Held)
	if err != nil {
		e.nested(err)
		return nil
	}
	out.Kind, out.Message = kinds[m.Message.Kind()].code, b
	return out
}

func (d *decoder) forward(m *wirepb.Forward) *protocol.Forward {
	last := int64(-1)
	out := &protocol.Forward{Client: d.next("client", m.GetClient(), &last), Held: m.GetHeld(), Opens: m.GetOpens()}
	kind, ok := kindOf(byte(m.GetKind()))
	switch {
	case m.GetKind() == 0 && len(m.GetMessage()) == 0:
		if !out.Opens || out.Held {
			d.missing("message")
		}
		return out
	case !ok || int64(m.GetKind()) > 255 || forwards(kind):
		d.fail(ErrSyntax, "kind", "no message of kind %d travels inside", m.GetKind())
		return out
	case out.Held && kind != protocol.KindMaskedInput && kind != protocol.KindUnmask:
		d.fail(ErrValue, "held", "%s has no vectors", kind)
		return out
	case out.Opens && (kind != protocol.KindDelivery || out.Held):
		d.fail(ErrValue, "opens", "%s is no delivery", kind)
		return out
	}
	if d.inside {
		return out
	}
	inner := d.limits
	inner.Bytes = d.limits.Inside
	var err error
	if out.Message, err = unmarshal(kind, m.GetMessage(), inner, out.Held); err != nil {
		d.nested(err)
	}
	return out
}

// forwards says whether messages of a kind are relays' own.
func forwards(k protocol.Kind) bool { return k >= protocol.KindForward }

// nested says that the message inside breaks a rule.
func (c *cursor) nested(err error) {
	if c.err == nil {
		c.err = &FieldError{Kind: c.kind, Field: "message", Err: fmt.Errorf("inside: %w", err)}
	}
}

func (d *decoder) partial(m *wirepb.Partial) *protocol.Partial {
	d.list("sums", len(m.GetSums()))
	out := &protocol.Partial{Round: d.round(m.GetRound()), Stage: d.stage(m.GetStage()),
		Clients: d.bitmap("clients", m.GetClients()), Sums: make([][]byte, len(m.GetSums()))}
	for i, v := range m.GetSums() {
		out.Sums[i] = orNil(v)
	}
	return out
}

// stage is one of which the messages have vectors.
func (d *decoder) stage(s wirepb.Stage) protocol.Stage {
	out := protocol.Stage(d.choice("stage", int32(s), int(protocol.Stages)))
	if out != protocol.StageMaskedInput && out != protocol.StageUnmask {
		d.fail(ErrValue, "stage", "nothing is added up in the stage %s", out)
	}
	return out
}

func relayStatus(m *protocol.RelayStatus) *wirepb.RelayStatus {
	out := &wirepb.RelayStatus{Client: uint32(m.Client), Connected: m.Connected}
	if m.Connected {
		out.Incarnation = m.Incarnation[:]
	}
	return out
}

func (d *decoder) relayStatus(m *wirepb.RelayStatus) *protocol.RelayStatus {
	last := int64(-1)
	out := &protocol.RelayStatus{Client: d.next("client", m.GetClient(), &last), Connected: m.GetConnected()}
	switch {
	case out.Connected:
		out.Incarnation = protocol.IncarnationID(d.fixed("incarnation", m.GetIncarnation(), len(out.Incarnation)))
	case len(m.GetIncarnation()) > 0:
		d.fail(ErrValue, "incarnation", "of a client that is not connected")
	}
	return out
}
