// Package wire is the bytes of the messages of package protocol.
//
// # Format
//
// A message is one of protobuf (wire.proto) and travels in frames:
//
//	kind, 1 byte | bytes of the message left, 4 bytes, big endian | so many of them, at most 256 KiB
//
// The first frame's number is the length of the message. Each frame but the last is
// full, so that the next one has the same kind and 256 KiB less left. Vectors are
// packed bytes. [AppendFrames], [Writer] and [Reader] deal in frames, [Marshal] and
// [Unmarshal] in messages without them.
//
// Nothing is hashed or signed in this form, in which one message has many
// encodings: see protocol.Transcript for what is.
//
// Ideal sums have no wire: what only they send is refused with [ErrIdeal].
//
// # Strictness
//
// Whoever is at the other end may be hostile. [Unmarshal] refuses what protobuf
// lets pass: unknown fields, fields that stand twice, numbers that are too large for
// their type. Keys, hashes, signatures and nonces have their lengths, lists
// of clients ascend, and what a message cannot do without is there. A [FieldError]
// names the field. What depends on the plan, on the roster or on a key is for the
// roles to check.
//
// # Limits
//
// [Limits] say how long a message of each kind may be and how many entries a list
// may have, and they hold before anything is allocated; [LimitsFor] has the
// formulas. A [Reader] takes memory as bytes arrive, a few times as much: a length
// that is announced costs nothing.
package wire

//go:generate go run -C ../../tools ./genproto .. protocol/wire/wire.proto

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/fedsim/fedsim/protocol"
)

// What is wrong with a field or a message.
var (
	// ErrSyntax: not protobuf, or a field that is unknown, stands twice, or is of
	// another type.
	ErrSyntax = errors.New("malformed encoding")
	// ErrValue: a field is missing, has a wrong length, or is out of range or order.
	ErrValue = errors.New("invalid value")
	// ErrLimit: more than the limits allow.
	ErrLimit = errors.New("above the limit")
	// ErrIdeal: what only an ideal sum sends, and a real one in another form.
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
	e := encoder{cursor{kind: m.Kind()}}
	out := e.message(m)
	if e.err != nil {
		return nil, e.err
	}
	d := decoder{cursor{kind: m.Kind()}, unlimited}
	if d.message(out); d.err != nil {
		return nil, d.err
	}
	return proto.Marshal(out)
}

// Unmarshal decodes a message of a kind. The error is a *FieldError. The message
// does not refer to b.
func Unmarshal(kind protocol.Kind, b []byte, l Limits) (protocol.Message, error) {
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
	d := decoder{c, l}
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
