package noise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"weak"
)

// minSigma and maxSigma bound sigma; outside of them sigma times a draw would overflow or lose
// digits.
const (
	minSigma = 0x1p-900
	maxSigma = 0x1p900
)

// Gaussian draws from the normal distribution of mean 0 and standard deviation sigma, in float64,
// by the ziggurat method (Marsaglia and Tsang 2000). Layer, sign and abscissa come from disjoint
// bits of a word, as Doornik 2005 asks. Gaussian is immutable, so any number of goroutines may
// share it, each with its own Bits.
//
// # How exact a draw is
//
// Up to the rounding of float64 the law is the normal one. The 1,024 layers make up its density to
// a relative error below 1e-14. A draw is sigma times an odd multiple of x/2^54, with x < 4.28 the
// width of its layer. So values are at most 4.8e-16·sigma apart, none is zero, and a value and its
// negative are equally likely. In the tails, |draw| > 4.04·sigma, which 1 draw in 18,617 reaches,
// 52 uniform bits are turned into a value. No such value is beyond 13.2·sigma; the exact law has
// less than 1e-38 there.
//
// # What the low bits give away
//
// The float64 values that value + noise can take depend on value. So the low bits of a sum may
// betray value, for any law of the noise (Mironov 2012, "On significance of the least significant
// bits for differential privacy"). This package claims nothing about these bits. Round sums to a
// fixed grid before any other party sees them: a grid that depends on no data and is coarser by
// many orders than the spacing above. Parties do so, because they send only fixed point. For noise
// whose law is exact to the last bit use [Skellam].
//
// Noise added to a value that is 2^53 times as large is lost to rounding; the caller must bound the
// values.
type Gaussian struct {
	sigma float64
}

// NewGaussian returns the normal distribution of mean 0 and standard deviation
// sigma, which must lie between 2^-900 and 2^900.
func NewGaussian(sigma float64) (*Gaussian, error) {
	if !(sigma >= minSigma && sigma <= maxSigma) { // written this way, it refuses NaN
		return nil, fmt.Errorf("noise: Gaussian: standard deviation %v; must be positive, between 2^-900 and 2^900", sigma)
	}
	return &Gaussian{sigma: sigma}, nil
}

// Add adds an independent draw to every coordinate of dst. It reads one word of the stream per
// coordinate, and more for 1 in 234 of them. Neither sigma nor the division of a vector into calls
// changes which words make a draw.
//
// Equal words give equal sums, to the last bit, on every architecture: no product is fused with a
// sum, and no function is used whose rounding the language leaves open.
//
// If the stream fails, Add clears dst, so that nothing with too little noise can leave by mistake,
// and returns the stream's error.
func (g *Gaussian) Add(dst []float64, b *Bits) error {
	for rest := dst; len(rest) > 0 && b.err == nil; {
		done := g.addInside(rest, b.buf[b.pos:b.size])
		b.pos += 8 * done
		if rest = rest[done:]; len(rest) > 0 {
			rest[0] += float64(g.sigma * zig.draw(b))
			rest = rest[1:]
		}
	}
	if b.err != nil {
		clear(dst)
		return b.err
	}
	return nil
}

// addInside adds the draws of the words in block until a draw needs a second word, and returns the
// number of draws. The sampler spends most of its time here: one load from the stream, one from a
// table of 16 KiB, and a branch that goes the same way 995 times in 1,000.
func (g *Gaussian) addInside(dst []float64, block []byte) int {
	sigma := g.sigma
	n := min(len(dst), len(block)/8)
	for i := range n {
		word := binary.LittleEndian.Uint64(block[8*i:])
		l := &zig.layers[word%layers]
		j := abscissa(word)
		if !l.inside(j) {
			return i
		}
		dst[i] += float64(sigma * l.at(j))
	}
	return n
}

// abscissa returns the part of a word that gives the draw's place in its layer: an odd integer
// between -2^54 and 2^54. Its lowest bit, always set, takes the place of the highest bit of the
// layer's number, so that place and layer are independent. Being odd it is symmetric about zero.
func abscissa(word uint64) int64 {
	return int64(word)>>(layerBits-1) | 1
}

// unit returns a number in (0, 1), the middle of one of 2^52 equal parts.
func unit(word uint64) float64 {
	return float64((float64(word>>12) + 0.5) * 0x1p-52)
}

// draw returns a standard normal variable, or anything if the stream fails.
func (z *ziggurat) draw(b *Bits) float64 {
	for b.err == nil {
		word := b.Uint64()
		i := word % layers
		l := &z.layers[i]
		j := abscissa(word)
		x := l.at(j)
		switch {
		case l.inside(j):
			return x
		case i == 0:
			return math.Copysign(tail(b), x)
		case z.under(i, x, unit(b.Uint64())):
			return x
		}
	}
	return 0
}

// under reports whether the point at x and at the height u, from 0 to 1, of layer
// i is under the curve.
func (z *ziggurat) under(i uint64, x, u float64) bool {
	y := z.y[i] + float64(u*(z.y[i+1]-z.y[i]))
	return y < density(x)
}

// tail returns a standard normal variable given that it is above baseEdge
// (Marsaglia 1964), or anything if the stream fails. An exponential variable of
// rate baseEdge, above baseEdge, has the density exp(-baseEdge·a), which is kept
// with probability exp(-a²/2).
func tail(b *Bits) float64 {
	for b.err == nil {
		a := -log(unit(b.Uint64())) / baseEdge
		if -2*log(unit(b.Uint64())) > a*a {
			return baseEdge + a
		}
	}
	return baseEdge
}

// The functions of package math may differ in their last bits from one architecture to another. The
// functions below do not: they use operations that IEEE 754 rounds correctly. Conversions to
// float64 keep a compiler from fusing products with sums, also if it expands a call in place.

// ln2Hi + ln2Lo is the logarithm of 2; ln2Hi ends in zeros, so that small
// multiples of it are exact.
const (
	ln2Hi = 0x1.62e42feep-1
	ln2Lo = 0x1.a39ef35793c76p-33
)

// inverseFactorials holds 1/n! for the terms of exp.
var inverseFactorials = [...]float64{
	1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880,
	1. / 3628800, 1. / 39916800, 1. / 479001600, 1. / 6227020800,
}

// exp returns e^x for -700 <= x <= 700, within two units of the last place. It
// is the Taylor series at x - k·log 2, which is at most 0.35, times 2^k; the
// first term left out is below 5e-18.
func exp(x float64) float64 {
	k := math.RoundToEven(x / math.Ln2)
	r := x - float64(k*ln2Hi) - float64(k*ln2Lo)
	sum := 0.0
	for i := len(inverseFactorials) - 1; i >= 0; i-- {
		sum = inverseFactorials[i] + float64(sum*r)
	}
	return float64(sum * math.Float64frombits(uint64(1023+int64(k))<<52))
}

// log returns the natural logarithm of x, for 2^-1000 <= x <= 2^1000, with an
// error below 4e-16 or two units of the last place, whichever is more. It solves
// exp(y) = x by Halley's method: an error e becomes e³/12, from 0.35 at first to
// far below the rounding after three steps.
func log(x float64) float64 {
	_, e := math.Frexp(x)
	y := float64((float64(e) - 0.5) * math.Ln2)
	for range 3 {
		z := exp(y)
		y += float64(2 * ((x - z) / (x + z)))
	}
	return y
}

// bufferSize is the number of bytes Bits asks its reader for at a time: large
// enough that a block cipher in counter mode runs at full speed.
const bufferSize = 2048

// Bits deals out the words of a random stream, eight bytes at a time and little endian. It reads
// ahead, so nothing else may read from the same stream.
//
// A failing reader must not turn into predictable noise. Bits keeps the first error, and Uint64
// returns zero from then on. Every function of this package that fills a vector returns the error.
// Code that calls Draw methods itself must check Err before it uses the draws.
//
// A Bits belongs to one goroutine.
type Bits struct {
	r         io.Reader
	pos, size int // the unread bytes are buf[pos:size]
	err       error
	buf       [bufferSize]byte
}

// NewBits returns the words of r. A nil r is a stream that fails at once.
func NewBits(r io.Reader) *Bits {
	return &Bits{r: r}
}

// Uint64 returns the next word, or zero once the stream has failed.
func (b *Bits) Uint64() uint64 {
	if b.size-b.pos < 8 && !b.fill() {
		return 0
	}
	v := binary.LittleEndian.Uint64(b.buf[b.pos:])
	b.pos += 8
	return v
}

// Err returns the error that ended the stream, or nil. If the stream merely ended, the error wraps
// io.ErrUnexpectedEOF: noise never ends by itself.
func (b *Bits) Err() error {
	return b.err
}

// fill makes at least one whole word available and reports whether it could.
func (b *Bits) fill() bool {
	if b.err != nil {
		return false
	}
	if b.r == nil {
		b.err = errors.New("noise: random stream is nil; give NewBits a reader")
		return false
	}
	left := copy(b.buf[:], b.buf[b.pos:b.size])
	n, err := io.ReadAtLeast(b.r, b.buf[left:], 8-left)
	b.pos, b.size = 0, left+n
	if err == nil {
		return true
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	b.err = fmt.Errorf("noise: random stream failed: %w", err)
	return false
}

// uint256 is an unsigned integer of four words, least significant first. Table weights use it
// because math/big would spend most of a table's building time on allocation and normalisation.
type uint256 [4]uint64

// add returns x + y modulo 2^256.
func (x uint256) add(y uint256) uint256 {
	var z uint256
	var carry uint64
	for i := range z {
		z[i], carry = bits.Add64(x[i], y[i], carry)
	}
	return z
}

// mul returns x * m modulo 2^256.
func (x uint256) mul(m uint64) uint256 {
	var z uint256
	var carry uint64
	for i := range z {
		hi, lo := bits.Mul64(x[i], m)
		var c uint64
		z[i], c = bits.Add64(lo, carry, 0)
		carry = hi + c // at most 2^64-1, since x[i]*m+carry < 2^128
	}
	return z
}

// div returns x / d rounded down; d is not zero.
func (x uint256) div(d uint64) uint256 {
	var z uint256
	var rem uint64
	for i := len(z) - 1; i >= 0; i-- {
		z[i], rem = bits.Div64(rem, x[i], d)
	}
	return z
}

// shr returns x / 2^s rounded down.
func (x uint256) shr(s uint) uint256 {
	var z uint256
	words, rest := int(s/64), s%64
	for i := 0; i+words < len(z); i++ {
		z[i] = x[i+words] >> rest
		if i+words+1 < len(z) {
			z[i] |= x[i+words+1] << (64 - rest)
		}
	}
	return z
}

// scale returns x * y / 2^192 rounded down, modulo 2^128, for x and y below
// 2^192.
func scale(x, y uint256) (hi, lo uint64) {
	var p [6]uint64
	for i := range 3 {
		var carry uint64
		for j := range 3 {
			h, l := bits.Mul64(x[i], y[j])
			var c uint64
			l, c = bits.Add64(l, p[i+j], 0)
			h += c
			p[i+j], c = bits.Add64(l, carry, 0)
			carry = h + c
		}
		p[i+3] = carry
	}
	return p[4], p[3]
}

// sharedTables finds the tables that some sampler of this process still holds. A table follows from public numbers
// alone, so that clients in one process need it once. It keeps no table in memory by itself.
type sharedTables struct {
	mu      sync.Mutex // locked while a table is built, so that others wait for it
	entries map[tableKey]weak.Pointer[table]
}

// tableKey names the law of a table: Binomial(n, num/den), or Poisson(mean). In Tables it names a sampler.
type tableKey struct {
	n, num, den uint64
	mean        float64
}

var tablesInUse = sharedTables{entries: make(map[tableKey]weak.Pointer[table])}

// get returns the table of a key, and builds it if no sampler holds it.
func (s *sharedTables) get(k tableKey, build func() *table) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.entries[k].Value(); t != nil {
		return t
	}
	t := build()
	s.entries[k] = weak.Make(t)
	runtime.AddCleanup(t, s.drop, k)
	return t
}

// drop forgets a table that is gone, unless it was built again.
func (s *sharedTables) drop(k tableKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[k].Value() == nil {
		delete(s.entries, k)
	}
}
