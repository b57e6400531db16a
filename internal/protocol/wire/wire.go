// Package wire encodes the messages of package protocol for a network, and decodes the messages of an untrusted peer.
//
// # Format
//
// A message is encoded as protobuf (wire.proto) and travels in frames:
//
//	kind, 1 byte | bytes of the message left, 4 bytes, big endian | so many of them, at most 256 KiB
//
// The first frame's number is the length of the message. Every frame but the last is full, so the next one has the same kind and
// 256 KiB less left. Vectors are packed bytes. [AppendFrames], [Announcer] and [Reader] work on frames, [Marshal] and [Unmarshal] on
// messages without them.
//
// Package protocol describes the fields of each message once, for the bytes and for their number (protocol.Size). wire.proto is the
// description for other programs. Nothing is hashed or signed in this form: hashes and signatures are over a protocol.Transcript.
//
// Messages that only an ideal sum sends, which a simulation uses, have no encoding. They are refused with [codec.ErrIdeal].
//
// # Strictness
//
// The peer may be hostile. [Unmarshal] refuses what protobuf would accept: unknown fields, repeated fields, fields out of order,
// and numbers too large for their type. It also checks that keys, hashes and signatures have their lengths, that lists of
// clients ascend, and that required fields are present. A [FieldError] names the field. The roles check everything that depends on
// the plan, the roster or a key.
//
// # Limits
//
// [Limits] say how long a message of each kind may be and how many entries a list may have. They are enforced before memory is
// allocated; limitsFor has the formulas. A [Reader] allocates as bytes arrive, at most a few times as much, so announcing a large
// length does not make it allocate.
package wire

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/internal/protocol/codec"
	"github.com/fedsim/fedsim/protocol"
)

// FieldError says what is wrong with a message.
type FieldError struct {
	Kind  protocol.Kind
	Field string // as in wire.proto, e.g. "members[3].keys.mask"; empty: the whole message
	Err   error  // which rule is broken, one of package codec's, and how
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
		return refuse(codec.ErrSyntax, "there is no such message")
	case len(b) == 0:
		return refuse(codec.ErrValue, "there are no bytes")
	case len(b) > l.Bytes[kind]:
		return refuse(codec.ErrLimit, "%d bytes, at most %d", len(b), l.Bytes[kind])
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

// Limits is the most that is accepted from a peer. The zero value accepts nothing.
type Limits struct {
	// Bytes is the most bytes of a message of each kind, frame headers aside; 0: none of that kind is taken.
	Bytes [protocol.Kinds]int
	// Inside is the same of messages inside a Forward.
	Inside [protocol.Kinds]int
	// Clients is N, of all that are enrolled: their numbers are below it, no number of clients is above it,
	// and lists of clients are no longer.
	Clients int
	// Neighbours is the most shares, or complaints, in a message.
	Neighbours int
	// Releases is the most releases of a plan, and vectors in a message.
	Releases int
}

// Session is the public data from which the limits of a session follow. None of it is
// taken from the peer that the limits are applied to.
type Session struct {
	// Plans has a plan of each form that the session's plans have, which Validate
	// accepts; of each, phase, cohort and releases are read.
	Plans []*protocol.Plan
	// Neighbours is the largest degree of the graph for any roster of the cohort. The degree for a roster may be larger than the
	// degree for all clients; one less than the number of clients is always enough.
	Neighbours int
	// Model is the length in bytes of the longest model that is broadcast.
	Model int
	// Proof is the length in bytes of the longest proof about an input with its blindings; 0 unless inputs are verified.
	Proof int
}

// The sizes of entries of lists at their largest, which is in active mode. Replaced noise, of semi-honest mode, has a key of 34
// bytes besides and 64 more of ciphertext, but no signatures of 66 and no commitments.
const (
	memberSize    = 146 // of a roster: client, two keys, signature
	sealedSize    = 228 // of shares: peer, 80 bytes of ciphertext, two points, signature
	revealedSize  = 42  // of an answer to unmask: client, share
	signedSize    = 74  // of a quorum: client, signature
	complaintSize = 42  // of a masked input: client, secret
	releaseSize   = 128 // of a plan, its name aside
	vectorSize    = 16  // what a vector has besides its content
	slack         = 256 // what any message has besides lists and content, and room to grow
)

// LimitsFor computes the limits of a session, by the formulas of limitsFor: a message is as long as its lists and its content at their
// largest, and a few hundred bytes. The zero Session stands for an unknown session: no client is accepted, and no longer message.
func LimitsFor(s Session) Limits {
	var out Limits
	// Plans of different forms share limits: the most of each.
	for _, p := range append([]*protocol.Plan{{}}, s.Plans...) {
		l := limitsFor(p, s)
		for k, n := range l.Bytes {
			out.Bytes[k] = max(out.Bytes[k], n)
		}
		out.Clients, out.Releases = max(out.Clients, l.Clients), max(out.Releases, l.Releases)
	}
	out.Neighbours = s.Neighbours
	out.Inside = out.Bytes
	for k := protocol.KindForward; k < protocol.Kinds; k++ {
		out.Inside[k] = 0
	}
	return out
}

// limitsFor is LimitsFor of the plans of one form. A removal is taken to be an eighth and 64 bytes a release longer than
// expected when no client is lost. An honest client's removal takes more with a probability below 2^-40.
func limitsFor(p *protocol.Plan, s Session) Limits {
	n, releases := p.Cohort.All(), len(p.Releases)
	plan := slack + len(p.Phase) + s.Model
	coordinates := 0
	for _, r := range p.Releases {
		plan += releaseSize + len(r.Name)
		coordinates += r.Len
	}
	bitmap, removals := n/8+min(1, n%8), p.RemovalSize(n)
	advertise, roster, shares := slack, slack+memberSize*n, slack+sealedSize*s.Neighbours
	delivery := bitmap + shares
	masked := slack + p.PackedSize() + vectorSize*releases + complaintSize*s.Neighbours + s.Proof + advertise
	unmask := slack + revealedSize*s.Neighbours + removals + removals/8 + (64+vectorSize)*releases + shares
	survivors := slack + bitmap + roster
	out := Limits{Clients: n, Releases: releases}
	for k := range out.Bytes {
		out.Bytes[k] = slack // of all that have no list and no content
	}
	out.Bytes[protocol.KindOpen] = slack + plan
	out.Bytes[protocol.KindAnnounce] = slack + plan + delivery
	out.Bytes[protocol.KindAdvertise] = advertise
	out.Bytes[protocol.KindRoster] = roster
	out.Bytes[protocol.KindShares] = shares
	out.Bytes[protocol.KindDelivery] = delivery
	out.Bytes[protocol.KindMaskedInput] = masked
	out.Bytes[protocol.KindSurvivors] = survivors
	out.Bytes[protocol.KindQuorum] = slack + signedSize*n
	out.Bytes[protocol.KindUnmask] = unmask
	out.Bytes[protocol.KindAnswered] = slack + bitmap
	out.Bytes[protocol.KindReplacement] = slack + revealedSize*s.Neighbours
	out.Bytes[protocol.KindResult] = slack + 8*coordinates + vectorSize*releases
	if out.Bytes[protocol.KindFinal] = slack + s.Model; len(s.Plans) > 0 {
		out.Bytes[protocol.KindFinal] += protocol.MaxReceipt
	}
	out.Bytes[protocol.KindForward] = slack + max(roster, delivery, masked, survivors, unmask)
	out.Bytes[protocol.KindPartial] = slack + bitmap + p.PackedSize() + vectorSize*releases
	return out
}

// Between restricts the limits to the kinds of messages that one role sends to another.
func (l Limits) Between(from, to protocol.Role) Limits {
	for k := range protocol.Kinds {
		if !k.Travels(from, to) {
			l.Bytes[k] = 0
		}
		if !k.TravelsInside(from, to) {
			l.Inside[k] = 0
		}
	}
	return l
}
