package protocol

import (
	"math"
	"math/bits"
)

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
	n := m.body()
	return n + FrameHeader*max(1, (n+FramePayload-1)/FramePayload)
}

// A message is a list of fields (protocol/wire/wire.proto). A field has a tag of
// one byte; what is zero or empty is left out.

// number is the size of a field with an integer.
func number(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + varint(v)
}

// flag is the size of a field with a yes or no.
func flag(v bool) int {
	if v {
		return 1 + 1
	}
	return 0
}

// varint is the size of an integer at 7 bits a byte.
func varint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// float is the size of a field with a float64; -0 is not left out.
func float(v float64) int {
	if math.Float64bits(v) == 0 {
		return 0
	}
	return 1 + 8
}

// some is the size of a field with n bytes.
func some(n int) int {
	if n == 0 {
		return 0
	}
	return entry(n)
}

// entry is the size of n bytes that are a message, or one of a list: they stand
// there even if they are none.
func entry(n int) int { return 1 + varint(uint64(n)) + n }

// PiggybackSize returns how many of a message's bytes belong to the message that travels with it.
// On its own, that message would take a frame's header more.
func PiggybackSize(m Message) int {
	if r := Piggyback(m); r != nil {
		return entry(r.body())
	}
	return 0
}

func (m *Open) body() int { return entry(m.Plan.body()) }
func (m *Announce) body() int {
	return entry(m.Plan.body()) + PiggybackSize(m) + number(uint64(m.Anew))
}

func (m *Invite) body() int {
	return some(len(m.Setup.Session)) + number(m.Setup.Round) + entry(m.Setup.Cohort.body()) + flag(m.Setup.Replaces)
}

func (m *Advertise) body() int {
	n := number(m.Round) + flag(m.Ahead) + number(uint64(m.Anew))
	if m.Keys != nil {
		n += entry(m.Keys.body())
	}
	return n
}

func (m *Roster) body() int {
	n := number(m.Round)
	for i := range m.Members {
		n += entry(number(uint64(m.Members[i].Client)) + entry(m.Members[i].Keys.body()))
	}
	if m.Ring != nil {
		n += number(uint64(m.Clients)) + entry(m.Ring.body())
	}
	return n
}

func (r *Ring) body() int {
	return some(HashSize) + number(uint64(r.Start)) + len(r.Proof)*entry(HashSize)
}

// digestBody is the size of the fields that stand for a set of which a part is shown.
func digestBody(count int, digest *Hash) int {
	if digest == nil {
		return 0
	}
	return number(uint64(count)) + some(HashSize)
}

func (m *Shares) body() int {
	n := number(m.Round) + flag(m.Ahead) + number(uint64(m.Anew))
	if len(m.Shares) == 0 {
		return n
	}
	if m.ChangeHash != nil {
		n += some(HashSize)
	}
	return n + some(HashSize) + sharesBody(m.Shares)
}

func (m *Delivery) body() int {
	return number(m.Round) + some(len(m.Arrived)) + sharesBody(m.Shares) + digestBody(m.Clients, m.Digest)
}

func (m *Prepared) body() int { return number(m.Round) + number(uint64(m.Anew)) }
func (m *Proceed) body() int  { return number(m.Round) }

func (m *MaskedInput) body() int {
	n := number(m.Round) + some(m.Packed) + PiggybackSize(m) + some(len(m.Head))
	for _, v := range m.Masked {
		n += entry(len(v))
	}
	for _, c := range m.Complaints {
		n += entry(number(uint64(c.Of)) + some(len(c.Secret)))
	}
	return n
}

func (m *Survivors) body() int {
	return number(m.Round) + some(len(m.U1)) + PiggybackSize(m) + digestBody(m.Count, m.Digest)
}

func (m *Consistency) body() int { return number(m.Round) + some(len(m.Signature)) }

func (m *Quorum) body() int {
	n := number(m.Round)
	for i := range m.Signatures {
		n += entry(number(uint64(m.Signatures[i].Client)) + some(len(m.Signatures[i].Signature)))
	}
	return n
}

func (m *Unmask) body() int {
	n := number(m.Round) + some(m.Packed) + PiggybackSize(m) + revealedBody(m.Shares)
	for _, r := range m.Removed {
		n += entry(len(r))
	}
	return n
}

func (m *Answered) body() int {
	return number(m.Round) + some(len(m.U2)) + digestBody(m.Count, m.Digest)
}

func (m *Replacement) body() int { return number(m.Round) + revealedBody(m.Shares) }

func (m *Result) body() int {
	n := number(m.Round) + number(uint64(m.Survivors)) + number(uint64(m.Answered))
	for _, v := range m.Integers {
		n += entry(8 * len(v))
	}
	return n
}

func (m *Refusal) body() int { return number(m.Round) }

func (m *Abort) body() int {
	if m.Reason == nil {
		return number(m.Round) // malformed; the server ignores it
	}
	return number(m.Round) + entry(m.Reason.body())
}

func (m *Held) body() int {
	return number(m.Round) + number(uint64(m.Connected)) + number(uint64(m.Required))
}

func (m *Final) body() int { return some(len(m.Model)) + some(len(m.Signature)) }

func (p *Plan) body() int {
	n := some(len(p.Session)) + number(p.Round) + some(len(p.Phase)) + entry(p.Cohort.body()) +
		some(len(p.Broadcast)) + some(len(p.Signature))
	for i := range p.Releases {
		n += entry(p.Releases[i].body())
	}
	return n
}

func (c *Cohort) body() int {
	return number(uint64(c.Clients)) + float(c.Tolerance) + float(c.Colluders) + number(uint64(c.Enrolled)) + number(uint64(c.Goal))
}

func (r *Release) body() int {
	return some(len(r.Name)) + number(uint64(r.Len)) + float(r.L2) + float(r.L1) + float(r.LInf) +
		number(uint64(r.MaxNonZero)) + float(r.Scale) + number(uint64(r.Width)) + entry(r.Noise.body()) + float(r.Sensitivity)
}

func (n *Noise) body() int {
	return number(1+uint64(n.Kind)) + float(n.Variance) + float(n.Multiplier) + float(n.SamplingRate) + number(uint64(n.Steps)) + flag(n.Spread)
}

func (k *Keys) body() int {
	n := some(KeySize) + some(KeySize) + some(len(k.Signature))
	if k.Change != nil {
		n += some(KeySize)
	}
	return n
}

func (s *EncryptedShare) body() int {
	n := number(uint64(s.Peer)) + some(len(s.Ciphertext))
	if c := s.Committed; c != nil {
		n += entry(some(HashSize) + some(HashSize) + some(len(c.Signature)))
	}
	return n
}

func sharesBody(shares []EncryptedShare) int {
	n := 0
	for i := range shares {
		n += entry(shares[i].body())
	}
	return n
}

func revealedBody(shares []RevealedShare) int {
	n := 0
	for i := range shares {
		s := &shares[i]
		n += entry(number(uint64(s.Of)) + some(len(s.Share)) + some(len(s.Nonce)))
	}
	return n
}

func (e *TooFew) body() int {
	return number(1+uint64(e.Stage)) + number(uint64(e.Left)) + number(uint64(e.Required))
}

func (e *Unrecoverable) body() int {
	return number(uint64(e.Client)) + number(uint64(e.Left)) + number(uint64(e.Required)) + flag(e.Dealt)
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
