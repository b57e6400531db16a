// Package wire encodes the messages of package protocol for a network, and decodes the messages of an untrusted peer.
//
// # Format
//
// A message is encoded as protobuf (wire.proto) and travels in frames:
//
//	kind, 1 byte | bytes of the message left, 4 bytes, big endian | so many of them, at most 256 KiB
//
// The first frame's number is the length of the message. Every frame but the last is full, so the next one has the same kind and
// 256 KiB less left. Vectors are packed bytes. [AppendFrames], [Writer] and [Reader] work on frames, [Marshal] and [Unmarshal] on
// messages without them.
//
// Package protocol describes the fields of each message once, for the bytes and for their number (protocol.Size). wire.proto is the
// description for other programs. Nothing is hashed or signed in this form: hashes and signatures are over a protocol.Transcript.
//
// Messages that only an ideal sum sends, which a simulation uses, have no encoding. They are refused with [ErrIdeal].
//
// # Strictness
//
// The peer may be hostile. [Unmarshal] refuses what protobuf would accept: unknown fields, repeated fields, fields out of order,
// and numbers too large for their type. It also checks that keys, hashes, signatures and nonces have their lengths, that lists of
// clients ascend, and that required fields are present. A [FieldError] names the field. The roles check everything that depends on
// the plan, the roster or a key.
//
// # Limits
//
// [Limits] say how long a message of each kind may be and how many entries a list may have. They are enforced before memory is
// allocated; [LimitsFor] has the formulas. A [Reader] allocates as bytes arrive, at most a few times as much, so announcing a large
// length does not make it allocate.
package wire

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/internal/codec"
)

// Faults of a field or a message.
var (
	// ErrSyntax: not protobuf, or a field that is unknown, stands twice or out of order, or is of another type.
	ErrSyntax = codec.ErrSyntax
	// ErrValue: a field is missing, has a wrong length, or is out of range or order.
	ErrValue = codec.ErrValue
	// ErrLimit: more than the limits allow.
	ErrLimit = codec.ErrLimit
	// ErrIdeal: a field that only an ideal sum sends; a real sum sends it in another form.
	ErrIdeal = codec.ErrIdeal
)

// FieldError says what is wrong with a message.
type FieldError struct {
	Kind  protocol.Kind
	Field string // as in wire.proto, e.g. "members[3].keys.mask"; empty: the whole message
	Err   error  // which rule is broken, one of those above, and how
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %v", e.Kind, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Kind, e.Field, e.Err)
}

// Unwrap returns the rule that was broken.
func (e *FieldError) Unwrap() error { return e.Err }

// Marshal encodes a message. A *FieldError is returned for what Unmarshal would
// refuse whatever the limits, and for what only an ideal sum sends.
func Marshal(m protocol.Message) ([]byte, error) {
	if m == nil {
		return nil, errors.New("wire: there is no message to encode")
	}
	return marshal(make([]byte, 0, protocol.Size(m)), m.Kind(), protocol.Fields(m))
}

func marshal(b []byte, kind protocol.Kind, fields func(*codec.Codec)) ([]byte, error) {
	b, fault := codec.Append(b, false, fields)
	if fault != nil {
		return nil, &FieldError{kind, fault.Field, fault.Err}
	}
	return b, nil
}

// Unmarshal decodes a message of a kind. The error is a *FieldError. The message does not refer to b.
func Unmarshal(kind protocol.Kind, b []byte, l Limits) (protocol.Message, error) {
	refuse := func(rule error, format string, args ...any) (protocol.Message, error) {
		return nil, &FieldError{Kind: kind, Err: fmt.Errorf("%w: "+format, append([]any{rule}, args...)...)}
	}
	switch {
	case kind >= protocol.Kinds:
		return refuse(ErrSyntax, "there is no such message")
	case len(b) == 0:
		return refuse(ErrValue, "there are no bytes")
	case len(b) > l.Bytes[kind]:
		return refuse(ErrLimit, "%d bytes, at most %d", len(b), l.Bytes[kind])
	}
	m := kind.New()
	most := codec.Limits{Clients: l.Clients, Neighbours: l.Neighbours, Releases: l.Releases, Inside: l.Inside[:]}
	if fault := codec.Read(b, most, false, protocol.Fields(m)); fault != nil {
		return nil, &FieldError{kind, fault.Field, fault.Err}
	}
	return m, nil
}

// Announcer makes the frames of announcements. The frames for one plan share the bytes of the plan and its model, however many
// clients get one with their own delivery. The zero value is ready for use; it is not safe for concurrent use.
type Announcer struct {
	plan  *protocol.Plan
	bytes []byte // an announcement of the plan and nothing else
}

// Frames returns the bytes of AppendFrames, in pieces to be written one after the other. They must
// not be changed. It returns the errors of AppendFrames.
func (a *Announcer) Frames(m *protocol.Announce) ([][]byte, error) {
	if a.bytes == nil || a.plan != m.Plan {
		b, err := Marshal(&protocol.Announce{Plan: m.Plan})
		if err != nil {
			return nil, err
		}
		a.plan, a.bytes = m.Plan, b
	}
	// Fields are encoded one behind the other, so what is encoded apart may be joined.
	own, err := marshal(nil, m.Kind(), protocol.OwnFields(m))
	if err != nil {
		return nil, err
	}
	return frames(m.Kind(), a.bytes, own)
}
