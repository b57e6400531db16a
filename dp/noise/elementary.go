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

// shl returns x * 2^s modulo 2^256.
func (x uint256) shl(s uint) uint256 {
	var z uint256
	words, rest := int(s/64), s%64
	for i := len(z) - 1; i >= words; i-- {
		z[i] = x[i-words] << rest
		if i > words {
			z[i] |= x[i-words-1] >> (64 - rest)
		}
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

// bitLen returns the number of bits of x; zero has none.
func (x uint256) bitLen() int {
	for i := len(x) - 1; i >= 0; i-- {
		if x[i] != 0 {
			return 64*i + bits.Len64(x[i])
		}
	}
	return 0
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
	mu      sync.Mutex
	entries map[tableKey]*tableEntry
}

// tableKey names the law of a table: Binomial(n, num/den), or Poisson(mean).
type tableKey struct {
	n, num, den uint64
	mean        float64
}

// tableEntry is locked while its table is built, so that others wait for it.
type tableEntry struct {
	mu    sync.Mutex
	table weak.Pointer[table]
}

var tablesInUse sharedTables

// get returns the table of a key, and builds it if no sampler holds it.
func (s *sharedTables) get(k tableKey, build func() *table) *table {
	s.mu.Lock()
	e := s.entries[k]
	if e == nil {
		if e = new(tableEntry); s.entries == nil {
			s.entries = make(map[tableKey]*tableEntry)
		}
		s.entries[k] = e
	}
	s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.table.Value(); t != nil {
		return t
	}
	t := build()
	e.table = weak.Make(t)
	runtime.AddCleanup(t, func(k tableKey) { s.drop(k, e) }, k)
	return t
}

// drop forgets an entry whose table is gone.
func (s *sharedTables) drop(k tableKey, e *tableEntry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table.Value() != nil {
		return // it was built again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[k] == e {
		delete(s.entries, k)
	}
}
