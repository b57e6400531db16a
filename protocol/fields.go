package protocol

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/internal/protocol/codec"
)

// The fields of each message, by the numbers, names and types of wire/wire.proto. Package wire writes and reads a
// message by them, and Size counts.

// Fields goes through the fields of a message, for package wire.
func Fields(m Message) func(*codec.Codec) { return m.fields }

// OwnFields goes through the fields of an announcement that are not its plan, for package wire.
func OwnFields(m *Announce) func(*codec.Codec) { return m.own }

func (m *Open) fields(c *codec.Codec) { planField(c, &m.Plan) }

func (m *Announce) fields(c *codec.Codec) {
	planField(c, &m.Plan)
	m.own(c)
}

func (m *Announce) own(c *codec.Codec) {
	codec.Message(c, 2, "delivery", &m.Delivery, func(d *Delivery) { d.fields(c) })
	c.Uint(3, "anew", &m.Anew)
}

func (m *Invite) fields(c *codec.Codec) {
	c.Fixed(1, "session", m.Setup.Session[:])
	c.Round(2, &m.Setup.Round)
	codec.Required(c, 3, "cohort", &m.Setup.Cohort, func(o *Cohort) { o.fields(c) })
	c.Flag(4, "replaces", &m.Setup.Replaces)
}

func (m *Advertise) fields(c *codec.Codec) {
	c.Ideal(m.Keys == nil, "keys")
	c.Round(1, &m.Round)
	codec.Message(c, 2, "keys", &m.Keys, func(k *Keys) { k.fields(c) })
	c.Needs(m.Keys != nil, "keys")
	c.Flag(3, "ahead", &m.Ahead)
	c.Uint(4, "anew", &m.Anew)
}

func (m *Roster) fields(c *codec.Codec) {
	loaded(c, "members", m.Load == nil)
	c.Ideal(len(m.Members) == 0 && m.Clients != 0, "members")
	c.Round(1, &m.Round)
	codec.List(c, 2, "members", &m.Members, c.Clients, func(x *Member) {
		codec.Client(c, 1, "client", &x.Client)
		codec.Required(c, 2, "keys", &x.Keys, func(k *Keys) { k.fields(c) })
	})
	c.Needs(len(m.Members) > 0, "members")
	total := partial(c, "members", m.Ring == nil, len(m.Members), m.Clients)
	c.Number(3, "clients", &total)
	codec.Message(c, 4, "ring", &m.Ring, func(r *Ring) {
		c.Fixed(1, "keys", r.Keys[:])
		codec.Quantity(c, 2, "start", &r.Start, math.MaxInt32)
		codec.Arrays(c, 3, "proof", &r.Proof, maxProof)
	})
	readTotal(c, "clients", &m.Clients, m.Ring == nil, len(m.Members), total)
}

// maxProof is the hashes of the proof of a part of a roster of 2^20 clients, which is the largest: two a level.
const maxProof = 2 * 20

func loaded(c *codec.Codec, field string, is bool) {
	if !is && c.Writes() {
		c.Fail(codec.ErrValue, field, "they are not loaded")
	}
}

// partial returns the size of a set that travels beside a part of the set. A receiver counts a set that it is shown
// whole, so that no size travels with it.
func partial(c *codec.Codec, field string, whole bool, shown, total int) int {
	if !whole || c.Reads() {
		return total
	}
	if shown != total {
		c.Fail(codec.ErrValue, field, "%d clients, the message counts %d", shown, total)
	}
	return 0
}

func readTotal(c *codec.Codec, field string, to *int, whole bool, shown, total int) {
	switch {
	case !c.Reads():
	case !whole:
		*to = total
	case total != 0:
		c.Fail(codec.ErrValue, field, "%d, of something that is missing", total)
	default:
		*to = shown
	}
}

// set names the fields of a subset of a roster. A part of the subset may be shown.
type set struct {
	bitmap, count, digest int // numbers of the fields
	bits, size            string
}

func (s set) fields(c *codec.Codec, shown *Bitmap, total *int, digest **Hash, between func()) {
	c.Ideal(len(*shown) == 0, s.bits)
	codec.Bitmap(c, s.bitmap, s.bits, shown)
	between()
	sent := partial(c, s.bits, *digest == nil, shown.Count(), *total)
	c.Number(s.count, s.size, &sent)
	codec.OptionalArray(c, s.digest, "digest", digest)
	readTotal(c, s.size, total, *digest == nil, shown.Count(), sent)
}

func (m *Shares) fields(c *codec.Codec) {
	c.Ideal(len(m.Shares) == 0, "shares")
	c.Round(1, &m.Round)
	if len(m.Shares) > 0 || !c.Counts() {
		c.Fixed(2, "seed_hash", m.SeedHash[:])
	}
	encryptedShares(c, &m.Shares)
	c.Flag(4, "ahead", &m.Ahead)
	if len(m.Shares) > 0 {
		codec.OptionalArray(c, 5, "change_hash", &m.ChangeHash)
	}
	c.Uint(6, "anew", &m.Anew)
}

func (m *Delivery) fields(c *codec.Codec) {
	loaded(c, "shares", m.Load == nil)
	c.Round(1, &m.Round)
	set{2, 4, 5, "arrived", "clients"}.fields(c, &m.Arrived, &m.Clients, &m.Digest, func() { encryptedShares(c, &m.Shares) })
}

func (m *Prepared) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	c.Uint(2, "anew", &m.Anew)
	c.Bytes(3, "accused", (*[]byte)(&m.Accused))
}

func (m *Proceed) fields(c *codec.Codec) { c.Round(1, &m.Round) }

func (m *MaskedInput) fields(c *codec.Codec) {
	c.Ideal(len(m.Vectors) != 0 || m.Packed != 0, "masked")
	c.Packed(m.Packed)
	c.Round(1, &m.Round)
	vectors(c, 2, "masked", &m.Masked, true)
	codec.Message(c, 3, "next", &m.Next, func(a *Advertise) { a.fields(c) })
	codec.List(c, 4, "complaints", &m.Complaints, c.Neighbours, func(x *Complaint) {
		codec.Client(c, 1, "client", &x.Of)
		c.Fixed(2, "secret", x.Secret[:])
	})
	c.Optional(5, "head", &m.Head, HeadSize)
	c.Bytes(6, "proof", &m.Proof)
	c.Bytes(7, "blindings", &m.Blindings)
	if (len(m.Proof) == 0) != (len(m.Blindings) == 0) || len(m.Blindings)%32 != 0 {
		c.Fail(codec.ErrValue, "blindings", "%d bytes beside a proof of %d", len(m.Blindings), len(m.Proof))
	}
}

// vectors is a list of vectors: there are none where a relay holds them, and some elsewhere.
func vectors(c *codec.Codec, tag int, field string, v *[][]byte, nonEmpty bool) {
	c.Slices(tag, field, v, c.Releases, nonEmpty)
	c.Needs(c.ViaRelay || len(*v) > 0, field)
	if c.ViaRelay && len(*v) > 0 {
		c.Fail(codec.ErrValue, field, "%d vectors, which the relay holds", len(*v))
	}
}

func (m *Survivors) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	set{2, 4, 5, "u1", "count"}.fields(c, &m.U1, &m.Count, &m.Digest, func() {
		codec.Message(c, 3, "next", &m.Next, func(r *Roster) { r.fields(c) })
	})
}

func (m *Consistency) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	c.Exactly(2, "signature", &m.Signature, SignatureSize)
}

func (m *Quorum) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	codec.List(c, 2, "signatures", &m.Signatures, c.Clients, func(x *Signed) {
		codec.Client(c, 1, "client", &x.Client)
		c.Exactly(2, "signature", &x.Signature, SignatureSize)
	})
	c.Needs(len(m.Signatures) > 0, "signatures")
}

func (m *Unmask) fields(c *codec.Codec) {
	c.Ideal(len(m.Removals) != 0 || m.Packed != 0, "shares")
	c.Packed(m.Packed)
	c.Round(1, &m.Round)
	revealedShares(c, &m.Shares)
	vectors(c, 3, "removed", &m.Removed, false)
	codec.Message(c, 4, "next", &m.Next, func(s *Shares) { s.fields(c) })
}

func (m *Answered) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	set{2, 3, 4, "u2", "count"}.fields(c, &m.U2, &m.Count, &m.Digest, func() {})
}

func (m *Replacement) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	revealedShares(c, &m.Shares)
}

func (m *Refusal) fields(c *codec.Codec) { c.Round(1, &m.Round) }

func (m *Result) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	c.Number(2, "survivors", &m.Survivors)
	c.Number(3, "answered", &m.Answered)
	c.Integers(4, "integers", &m.Integers, c.Releases)
	c.Needs(len(m.Integers) > 0, "integers")
}

func (m *Abort) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	few, _ := m.Reason.(*TooFew)
	lost, _ := m.Reason.(*Unrecoverable)
	lied, _ := m.Reason.(*Unproved)
	if few != nil && few.Round != m.Round || lost != nil && lost.Round != m.Round || lied != nil && lied.Round != m.Round {
		c.Fail(codec.ErrValue, "round", "%d, the reason is of another", m.Round)
	}
	codec.Message(c, 2, "too_few", &few, func(e *TooFew) {
		codec.Choice(c, 1, "stage", &e.Stage, int(Stages))
		c.Number(2, "left", &e.Left)
		c.Number(3, "required", &e.Required)
	})
	codec.Message(c, 3, "unrecoverable", &lost, func(e *Unrecoverable) {
		codec.Client(c, 1, "client", &e.Client)
		c.Number(2, "left", &e.Left)
		c.Number(3, "required", &e.Required)
		c.Flag(4, "dealt", &e.Dealt)
	})
	codec.Message(c, 4, "unproved", &lied, func(*Unproved) {})
	switch {
	case lied != nil && (few != nil || lost != nil):
		c.Fail(codec.ErrSyntax, "unproved", "it stands beside its alternative")
	case few != nil && lost != nil:
		c.Fail(codec.ErrSyntax, "unrecoverable", "it stands beside its alternative")
	case few == nil && lost == nil && lied == nil:
		c.Needs(false, "reason")
	case !c.Reads():
	case few != nil:
		few.Round, m.Reason = m.Round, few
	case lost != nil:
		lost.Round, m.Reason = m.Round, lost
	default:
		lied.Round, m.Reason = m.Round, lied
	}
}

func (m *Held) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	c.Number(2, "connected", &m.Connected)
	c.Number(3, "required", &m.Required)
}

func (m *Final) fields(c *codec.Codec) {
	c.Bytes(1, "model", &m.Model)
	c.Optional(2, "signature", &m.Signature, SignatureSize)
	c.Bytes(3, "receipt", &m.Receipt)
	c.Needs(len(m.Model) > 0 || len(m.Receipt) > 0, "model")
}

// The message inside a Forward is encoded on its own, so that the relay need not understand it. A fault in it is a
// fault of the field message.
func (m *Forward) fields(c *codec.Codec) {
	var code uint32
	var inside []byte
	if m.Message != nil && !c.Reads() {
		code = uint32(m.Message.Kind().Code())
		if c.Counts() {
			c.Packed(codec.Count(m.Message.fields))
		} else {
			var fault *codec.Fault
			inside, fault = codec.Append(nil, m.Held, m.Message.fields)
			m.nested(c, m.Message.Kind(), fault)
		}
	}
	codec.Client(c, 1, "client", &m.Client)
	c.Uint(2, "kind", &code)
	c.Bytes(3, "message", &inside)
	c.Flag(4, "held", &m.Held)
	c.Flag(5, "opens", &m.Opens)
	kind, ok := KindOf(byte(code))
	switch {
	case code == 0 && len(inside) == 0:
		c.Needs(m.Opens && !m.Held, "message")
	case code > 255 || !ok || kind >= KindForward:
		c.Fail(codec.ErrSyntax, "kind", "no message of kind %d travels inside", code)
	case m.Held && kind != KindMaskedInput && kind != KindUnmask:
		c.Fail(codec.ErrValue, "held", "%s has no vectors", kind)
	case m.Opens && (kind != KindDelivery || m.Held):
		c.Fail(codec.ErrValue, "opens", "%s is no delivery", kind)
	case !c.Reads():
	case len(inside) == 0:
		c.Needs(false, "message")
	case len(inside) > c.Inside[kind]:
		c.Fail(codec.ErrLimit, "message", "inside: %s of %d bytes, at most %d", kind, len(inside), c.Inside[kind])
	default:
		m.Message = kind.New()
		m.nested(c, kind, codec.Read(inside, c.Limits, m.Held, m.Message.fields))
	}
}

func (m *Forward) nested(c *codec.Codec, kind Kind, fault *codec.Fault) {
	if fault != nil {
		c.Fail(fmt.Errorf("inside: %s: %s: %w", kind, fault.Field, fault.Err), "message", "it is refused")
	}
}

func (m *RelayAck) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	summed(c, &m.Stage)
	codec.Client(c, 3, "client", &m.Client)
}

func (m *RelayCollect) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	summed(c, &m.Stage)
}

func (m *Partial) fields(c *codec.Codec) {
	c.Round(1, &m.Round)
	summed(c, &m.Stage)
	codec.Bitmap(c, 3, "clients", &m.Clients)
	c.Slices(4, "sums", &m.Sums, c.Releases, false)
	c.Needs(len(m.Sums) > 0, "sums")
}

// summed is a stage whose messages have vectors.
func summed(c *codec.Codec, s *Stage) {
	if codec.Choice(c, 2, "stage", s, int(Stages)); *s != StageMaskedInput && *s != StageUnmask {
		c.Fail(codec.ErrValue, "stage", "nothing is added up in the stage %s", *s)
	}
}

func (m *RelayStatus) fields(c *codec.Codec) {
	codec.Client(c, 1, "client", &m.Client)
	gone := !m.Connected
	c.Flag(2, "gone", &gone)
	incarnation := m.Incarnation[:]
	if c.Reads() || gone {
		incarnation = nil
	}
	c.Bytes(3, "incarnation", &incarnation)
	switch {
	case !gone && len(incarnation) != len(m.Incarnation), gone && len(incarnation) > 0:
		c.Fail(codec.ErrValue, "incarnation", "%d bytes of a client that is gone: %t", len(incarnation), gone)
	case c.Reads():
		m.Connected = !gone
		copy(m.Incarnation[:], incarnation)
	}
}

func planField(c *codec.Codec, v **Plan) {
	codec.Message(c, 1, "plan", v, func(p *Plan) { p.fields(c) })
	c.Needs(*v != nil, "plan")
}

func (p *Plan) fields(c *codec.Codec) {
	c.Fixed(1, "session", p.Session[:])
	c.Round(2, &p.Round)
	c.Text(3, "phase", &p.Phase)
	codec.Required(c, 4, "cohort", &p.Cohort, func(o *Cohort) { o.fields(c) })
	codec.List(c, 5, "releases", &p.Releases, c.Releases, func(r *Release) { r.fields(c) })
	c.Needs(len(p.Releases) > 0, "releases")
	c.Bytes(6, "broadcast", &p.Broadcast)
	c.Optional(7, "signature", &p.Signature, SignatureSize)
}

func (c *Cohort) fields(to *codec.Codec) {
	to.Number(1, "clients", &c.Clients)
	to.Float(2, "tolerance", &c.Tolerance)
	to.Float(3, "colluders", &c.Colluders)
	to.Number(4, "enrolled", &c.Enrolled)
	to.Number(5, "goal", &c.Goal)
}

func (r *Release) fields(c *codec.Codec) {
	c.Text(1, "name", &r.Name)
	codec.Quantity(c, 2, "len", &r.Len, math.MaxInt32)
	c.Float(3, "l2", &r.L2)
	c.Float(4, "l1", &r.L1)
	c.Float(5, "l_inf", &r.LInf)
	codec.Quantity(c, 6, "max_non_zero", &r.MaxNonZero, math.MaxInt32)
	c.Float(7, "scale", &r.Scale)
	codec.Quantity(c, 8, "width", &r.Width, 64)
	codec.Required(c, 9, "noise", &r.Noise, func(n *Noise) {
		codec.Choice(c, 1, "kind", &n.Kind, len(noiseNames))
		c.Float(2, "variance", &n.Variance)
		c.Float(3, "multiplier", &n.Multiplier)
		c.Float(4, "sampling_rate", &n.SamplingRate)
		codec.Quantity(c, 5, "steps", &n.Steps, math.MaxInt32)
		c.Flag(6, "spread", &n.Spread)
	})
	c.Float(10, "sensitivity", &r.Sensitivity)
}

func (k *Keys) fields(c *codec.Codec) {
	c.Fixed(1, "mask", k.Mask[:])
	c.Fixed(2, "channel", k.Channel[:])
	c.Optional(3, "signature", &k.Signature, SignatureSize)
	codec.OptionalArray(c, 4, "change", &k.Change)
}

func encryptedShares(c *codec.Codec, v *[]EncryptedShare) {
	codec.List(c, 3, "shares", v, c.Neighbours, func(s *EncryptedShare) {
		codec.Client(c, 1, "peer", &s.Peer)
		c.Bytes(2, "ciphertext", &s.Ciphertext)
		c.Needs(len(s.Ciphertext) > 0, "ciphertext")
		codec.Message(c, 3, "committed", &s.Committed, func(o *Commitments) {
			c.Fixed(1, "seed", o.Seed[:])
			c.Fixed(2, "key", o.Key[:])
			c.Exactly(3, "signature", &o.Signature, SignatureSize)
		})
	})
	c.Needs(len(*v) > 0, "shares")
}

func revealedShares(c *codec.Codec, v *[]RevealedShare) {
	c.Ideal(len(*v) == 0, "shares")
	codec.List(c, 2, "shares", v, c.Neighbours, func(s *RevealedShare) {
		codec.Client(c, 1, "of", &s.Of)
		c.Fixed(2, "share", s.Share[:])
	})
	c.Needs(len(*v) > 0, "shares")
}
