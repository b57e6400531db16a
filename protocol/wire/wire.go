// Package wire encodes the messages of package protocol for a network, and decodes the messages of
// an untrusted peer.
//
// # Format
//
// A message is encoded as protobuf (wire.proto) and travels in frames:
//
//	kind, 1 byte | bytes of the message left, 4 bytes, big endian | so many of them, at most 256 KiB
//
// The first frame's number is the length of the message. Every frame but the last is
// full, so the next one has the same kind and 256 KiB less left. Vectors are packed
// bytes. [AppendFrames], [Writer] and [Reader] work on frames, [Marshal] and [Unmarshal]
// on messages without them.
//
// Nothing is hashed or signed in this form, since protobuf allows several encodings of
// one message. Hashes and signatures are over a protocol.Transcript.
//
// Messages that only an ideal sum sends, which a simulation uses, have no encoding. They
// are refused with [ErrIdeal].
//
// # Strictness
//
// The peer may be hostile. [Unmarshal] refuses what protobuf would accept: unknown fields, repeated
// fields, and numbers too large for their type. It also checks that keys, hashes, signatures and
// nonces have their lengths, that lists of clients ascend, and that required fields are present. A
// [FieldError] names the field. The roles check everything that depends on the plan, the roster or
// a key.
//
// # Limits
//
// [Limits] say how long a message of each kind may be and how many entries a list may
// have. They are enforced before memory is allocated; [LimitsFor] has the formulas. A
// [Reader] allocates as bytes arrive, at most a few times as much, so announcing a large
// length does not make it allocate.
package wire

//go:generate go run -C ../../tools ./genproto .. protocol/wire/wire.proto

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/fedsim/fedsim/protocol"
)

// Faults of a field or a message.
var (
	// ErrSyntax: not protobuf, or a field that is unknown, stands twice, or is of
	// another type.
	ErrSyntax = errors.New("malformed encoding")
	// ErrValue: a field is missing, has a wrong length, or is out of range or order.
	ErrValue = errors.New("invalid value")
	// ErrLimit: more than the limits allow.
	ErrLimit = errors.New("above the limit")
	// ErrIdeal: a field that only an ideal sum sends; a real one sends it in another
	// form.
	ErrIdeal = errors.New("of an ideal sum, which does not travel")
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
	return marshal(m, false)
}

// marshal is Marshal, also for a message of which a relay holds the vectors.
func marshal(m protocol.Message, viaRelay bool) ([]byte, error) {
	e := encoder{cursor{kind: m.Kind()}}
	out := e.message(m)
	if e.err != nil {
		return nil, e.err
	}
	d := decoder{cursor: cursor{kind: m.Kind()}, limits: unlimited, viaRelay: viaRelay, inside: true}
	if d.message(out); d.err != nil {
		return nil, d.err
	}
	return proto.Marshal(out)
}

// Unmarshal decodes a message of a kind. The error is a *FieldError. The message
// does not refer to b.
func Unmarshal(kind protocol.Kind, b []byte, l Limits) (protocol.Message, error) {
	return unmarshal(kind, b, l, false)
}

// unmarshal is Unmarshal, also for a message of which a relay holds the vectors.
func unmarshal(kind protocol.Kind, b []byte, l Limits, viaRelay bool) (protocol.Message, error) {
	out := empty(kind)
	c := cursor{kind: kind}
	switch {
	case out == nil:
		c.fail(ErrSyntax, "", "there is no such message")
	case len(b) == 0:
		c.fail(ErrValue, "", "there are no bytes")
	case len(b) > l.Bytes[kind]:
		c.fail(ErrLimit, "", "%d bytes, at most %d", len(b), l.Bytes[kind])
	default:
		c.scan(out.ProtoReflect().Descriptor(), b, l)
	}
	if c.err != nil {
		return nil, c.err
	}
	if err := proto.Unmarshal(b, out); err != nil {
		return nil, &FieldError{Kind: kind, Err: fmt.Errorf("%w: %w", ErrSyntax, err)}
	}
	d := decoder{cursor: c, limits: l, viaRelay: viaRelay}
	m := d.message(out)
	if d.err != nil {
		return nil, d.err
	}
	return m, nil
}

// cursor is a place in a message, and the first thing found wrong.
type cursor struct {
	kind protocol.Kind
	path []step
	err  error
}

// step is a field on the way to a place, index -1 if it is not one of a list.
type step struct {
	field string
	index int
}

func (c *cursor) enter(field string, index int) { c.path = append(c.path, step{field, index}) }
func (c *cursor) leave()                        { c.path = c.path[:len(c.path)-1] }

// submessage converts the message in a field; nil stays nil.
func submessage[In, Out any](c *cursor, field string, m *In, convert func(*In) *Out) *Out {
	if m == nil {
		return nil
	}
	c.enter(field, -1)
	defer c.leave()
	return convert(m)
}

// fail says that a field of the place breaks a rule, or the place does if field is "".
func (c *cursor) fail(rule error, field, format string, args ...any) {
	if c.err != nil {
		return
	}
	var b strings.Builder
	for _, s := range c.path {
		b.WriteString("." + s.field)
		if s.index >= 0 {
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	if field != "" {
		b.WriteString("." + field)
	}
	c.err = &FieldError{Kind: c.kind, Field: strings.TrimPrefix(b.String(), "."),
		Err: fmt.Errorf("%w: %s", rule, fmt.Sprintf(format, args...))}
}
