package protocol

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Removals of split noise are dense vectors of small integers that reveal nothing about what stays, so they travel in the clear and
// in a Golomb-Rice code. Replaced noise does not have that property: its changes are summed under masks, at the width of the ring.

// RemovalsSize is the size in bytes of one client's removals, one for each release of the plan.
func (p *Plan) RemovalsSize(removals []Integers) int {
	n := 0
	for i, v := range removals {
		if p.Releases[i].Noise.Kind == TwoRound {
			n += p.Releases[i].packedSize()
		} else {
			n += riceSize(v.Value)
		}
	}
	return n
}

// RemovalSize is the expected size in bytes of one client's removals when survivors clients are left: what the answer takes where
// removals are not drawn one by one.
func (p *Plan) RemovalSize(survivors int) int {
	n := 0
	for _, r := range p.Releases {
		switch r.Noise.Kind {
		case TwoRound:
			n += r.packedSize()
		case Split:
			a := p.Cohort.ShareVariance(r.Noise.Variance)
			b := r.Noise.Variance / float64(p.Cohort.Honest(survivors))
			n += expectedRiceSize(math.Sqrt(max(a-b, 0)), r.Len)
		case NoNoise, PartyNoise, LocalNoise: // nothing to remove
		}
	}
	return n
}

// riceSize is the length in bytes of the values in the Golomb-Rice code with
// the parameter that suits their mean, the parameter in front.
func riceSize(values []int64) int {
	k := suits(values)
	n := uint64(0)
	for _, v := range values {
		n += zigzag(v)>>k + 1 + uint64(k)
	}
	return 1 + int((n+7)/8)
}

// suits is the parameter that suits the mean of the values.
func suits(values []int64) int {
	var sum float64
	for _, v := range values {
		sum += float64(zigzag(v))
	}
	return riceParameter(sum / float64(len(values)))
}

// AppendRemoval appends the code of a dense removal: a byte for the parameter k, and then each value v. The zigzag of v is z =
// 2|v|, less 1 for negative v. Its code is ⌊z/2^k⌋ ones, a zero, and the k low bits of z, least significant first. The bits of a
// byte are filled from the least significant. Bits left over are zero.
func AppendRemoval(dst []byte, values []int64) []byte {
	k := suits(values)
	dst = append(dst, byte(k))
	w := bitWriter{dst: dst}
	for _, v := range values {
		z := zigzag(v)
		for q := z >> k; ; q -= 32 {
			if q < 32 {
				w.write(1<<q-1, int(q)+1)
				break
			}
			w.write(1<<32-1, 32)
		}
		for low := k; low > 0; low -= 32 {
			w.write(z>>(k-low)&(1<<min(low, 32)-1), min(low, 32))
		}
	}
	if w.bits > 0 {
		w.dst = append(w.dst, byte(w.acc))
	}
	return w.dst
}

// bitWriter fills bytes from the least significant bit.
type bitWriter struct {
	dst  []byte
	acc  uint64
	bits int // of acc, fewer than 8 between writes
}

// write appends the n low bits of v, at most 33, the others being zero.
func (w *bitWriter) write(v uint64, n int) {
	w.acc |= v << w.bits
	for w.bits += n; w.bits >= 8; w.bits -= 8 {
		w.dst = append(w.dst, byte(w.acc))
		w.acc >>= 8
	}
}

// ErrRemoval is returned for bytes that are no code of a removal.
var ErrRemoval = errors.New("not the code of a removal")

// ParseRemoval decodes what AppendRemoval wrote into dst, whose length says how many values there are. The error is ErrRemoval
// unless src holds exactly so many, each of 64 bits, and nothing but zeros in the bits left over; dst is then of no use. It takes
// time in proportion to the two lengths.
func ParseRemoval(dst []int64, src []byte) error {
	if len(src) == 0 || src[0] > 62 {
		return fmt.Errorf("%w: the parameter is missing or above 62", ErrRemoval)
	}
	k := int(src[0])
	r := bitReader{src: src[1:]}
	for i := range dst {
		q, ok := r.ones()
		if !ok || q > math.MaxUint64>>k {
			return fmt.Errorf("%w: value %d of %d is cut off or too large", ErrRemoval, i, len(dst))
		}
		low, ok := r.read(k)
		if !ok {
			return fmt.Errorf("%w: value %d of %d is cut off", ErrRemoval, i, len(dst))
		}
		z := q<<k | low
		dst[i] = int64(z>>1) ^ -int64(z&1)
	}
	if left := len(r.src)*8 - r.at; left >= 8 {
		return fmt.Errorf("%w: %d bits are left over", ErrRemoval, left)
	} else if rest, _ := r.read(left); rest != 0 {
		return fmt.Errorf("%w: bits left over are not zero", ErrRemoval)
	}
	return nil
}

// bitReader takes bytes apart from the least significant bit.
type bitReader struct {
	src []byte
	at  int // in bits
}

// ones takes ones and the zero that ends them.
func (r *bitReader) ones() (uint64, bool) {
	for n := uint64(0); r.at>>3 < len(r.src); {
		bit := r.at & 7
		run := bits.TrailingZeros8(^(r.src[r.at>>3] >> bit))
		if run < 8-bit {
			r.at += run + 1
			return n + uint64(run), true
		}
		n += uint64(8 - bit)
		r.at += 8 - bit
	}
	return 0, false
}

// read takes n bits, at most 64.
func (r *bitReader) read(n int) (v uint64, ok bool) {
	if r.at+n > 8*len(r.src) {
		return 0, false
	}
	for got := 0; got < n; {
		bit := r.at & 7
		take := min(8-bit, n-got)
		v |= uint64(r.src[r.at>>3]>>bit) & (1<<take - 1) << got
		got += take
		r.at += take
	}
	return v, true
}

// riceParameter suits values of the given mean.
func riceParameter(mean float64) int {
	k := 0
	for k < 62 && float64(uint64(1)<<k) < 0.7*mean {
		k++
	}
	return k
}

// expectedRiceSize is about the size that riceSize gives for n integers of a bell-shaped law of deviation sigma, taken for a
// rounded normal law. That is k + 1 bits and, for each multiple of 2^k that zigzag reaches, one more.
func expectedRiceSize(sigma float64, n int) int {
	if sigma == 0 {
		return 1 + (n+7)/8
	}
	above := func(n float64) float64 { return math.Erfc((n-0.5)/(sigma*math.Sqrt2)) / 2 } // P[x >= n]
	// zigzag is 2|x|, less 1 for negative x.
	k := riceParameter(2*sigma*math.Sqrt(2/math.Pi) - above(1))
	bits := float64(k + 1)
	for j := 1; ; j++ {
		reach := math.Ldexp(float64(j), k)
		p := above(math.Ceil(reach/2)) + above(math.Ceil((reach+1)/2))
		bits += p
		if p < 1e-6 {
			break
		}
	}
	return 1 + int(math.Ceil(bits*float64(n)/8))
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

// Messages between relays and the aggregator. A relay is connected to some of the clients,
// and adds up the vectors of what they send. Besides these, a relay gets the Announce of a
// plan, without a delivery, which it keeps, and Final, which goes to all of its clients.

// Forward carries one client's message through a relay, in either direction.
//
// Held, on the way up: the relay holds the message's vectors (MaskedInput.Masked, Unmask.Removed), which are missing here. It adds
// them to its sum when the aggregator says that it counts them.
//
// Opens, on the way down: the client gets the Announce of the plan that the relay was
// given last, with Message, a Delivery, inside or, if Message is nil, with none.
type Forward struct {
	Client  ClientID
	Held    bool
	Opens   bool
	Message Message
}

// RelayAck says that the aggregator counts a client's message of a stage, so that the relay adds the vectors that it holds of it.
type RelayAck struct {
	Round  uint64
	Stage  Stage
	Client ClientID
}

// RelayCollect asks a relay for the sum of what was counted in a stage, which is over.
type RelayCollect struct {
	Round uint64
	Stage Stage
}

// Partial is that sum: per release of the plan, the sum over Clients, modulo the ring, bit-packed as in MaskedInput; in the stage
// unmask empty for a release without noise to remove. Bit c of Clients is client c.
type Partial struct {
	Round   uint64
	Stage   Stage
	Clients Bitmap
	Sums    [][]byte
}

// RelayStatus says that a client has a connection to the relay now, or has none any more. Incarnation
// tells one start of its process from another; it is zero where it has no connection.
type RelayStatus struct {
	Client      ClientID
	Connected   bool
	Incarnation IncarnationID
}

// IncarnationID is drawn when a process starts: a client with another one than before knows nothing but its records.
type IncarnationID [16]byte

func (*Forward) Kind() Kind      { return KindForward }
func (*RelayAck) Kind() Kind     { return KindRelayAck }
func (*RelayCollect) Kind() Kind { return KindRelayCollect }
func (*Partial) Kind() Kind      { return KindPartial }
func (*RelayStatus) Kind() Kind  { return KindRelayStatus }
