package mask

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A ring has from MinWidth to MaxWidth bits, a vector at most MaxLen coordinates.
const (
	MinWidth = 8
	MaxWidth = 64
	MaxLen   = 1 << 30
)

var (
	// ErrWidth is returned for a ring of fewer bits than MinWidth or more than MaxWidth.
	ErrWidth = errors.New("impossible width")
	// ErrLen is returned for a negative length or one above MaxLen.
	ErrLen = errors.New("impossible length")
	// ErrKind is returned for a mask that is neither of a pair nor a client's own.
	ErrKind = errors.New("unknown kind of mask")
	// ErrShape is returned when vectors, masks or slices that have to fit do not.
	ErrShape = errors.New("shapes differ")
	// ErrRange is returned for an integer that the ring does not hold.
	ErrRange = errors.New("integer outside the ring")
	// ErrPacked is returned for bytes that are no packed vector of this shape.
	ErrPacked = errors.New("not a packed vector")
)

// Vector is a vector of residues modulo 2^width; see the package comment for how
// they are kept. Make one with [NewVector]. It may be read by any number of
// goroutines, or changed by one, except that [AddRange] may change disjoint parts
// at the same time.
type Vector struct {
	width  uint8
	narrow []uint32 // one word a coordinate; nil above 32 bits
	wide   []uint64 // one word a coordinate; nil up to 32 bits
}

// NewVector returns a vector of zeros. The error is ErrWidth unless the width is
// 8 to 64 bits, and ErrLen unless the length is 0 to MaxLen.
func NewVector(width uint8, length int) (*Vector, error) {
	if err := checkShape(width, length); err != nil {
		return nil, fmt.Errorf("mask: %w", err)
	}
	v := &Vector{width: width}
	if width <= 32 {
		v.narrow = make([]uint32, length)
	} else {
		v.wide = make([]uint64, length)
	}
	return v, nil
}

// Width returns the bits of the ring.
func (v *Vector) Width() uint8 { return v.width }

// Len returns the number of coordinates.
func (v *Vector) Len() int { return len(v.narrow) + len(v.wide) }

// isNarrow reports whether residues are kept in 32-bit words.
func (v *Vector) isNarrow() bool { return v.width <= 32 }

// Add adds w to v. The error is ErrShape unless they have the same width and
// length.
func (v *Vector) Add(w *Vector) error {
	if w.width != v.width || w.Len() != v.Len() {
		return fmt.Errorf("mask: adding vectors: %w: %d coordinates of %d bits to %d of %d bits", ErrShape, w.Len(), w.width, v.Len(), v.width)
	}
	for i := range v.narrow {
		v.narrow[i] += w.narrow[i]
	}
	for i := range v.wide {
		v.wide[i] += w.wide[i]
	}
	return nil
}

// AddInts adds integers to the coordinates, modulo 2^width. Each integer must be in the range of
// the ring, -2^(width-1) to 2^(width-1)-1, else the error is ErrRange: an integer outside would
// wrap by itself. The error is ErrShape unless there are as many as coordinates. After an error v
// is as before.
func (v *Vector) AddInts(x []int64) error {
	if len(x) != v.Len() {
		return fmt.Errorf("mask: adding integers: %w: %d integers to %d coordinates", ErrShape, len(x), v.Len())
	}
	var outside int64 // one pass without a branch on any value
	for _, n := range x {
		outside |= n ^ v.lift(uint64(n))
	}
	if outside != 0 {
		for i, n := range x {
			if n != v.lift(uint64(n)) {
				return fmt.Errorf("mask: %w: coordinate %d does not fit %d bits", ErrRange, i, v.width)
			}
		}
	}
	for i := range v.narrow {
		v.narrow[i] += uint32(x[i])
	}
	for i := range v.wide {
		v.wide[i] += uint64(x[i])
	}
	return nil
}

// AppendInts appends to dst the integer nearest zero that each residue stands for,
// from -2^(width-1) to 2^(width-1)-1.
func (v *Vector) AppendInts(dst []int64) []int64 {
	dst = slices.Grow(dst, v.Len())[:len(dst)+v.Len()]
	out := dst[len(dst)-v.Len():]
	for i, x := range v.narrow {
		out[i] = v.lift(uint64(x))
	}
	for i, x := range v.wide {
		out[i] = v.lift(x)
	}
	return dst
}

// lift returns the integer nearest zero that is x modulo 2^width.
func (v *Vector) lift(x uint64) int64 {
	shift := (64 - v.width) & 63
	return int64(x<<shift) >> shift
}

// The loops below are where the time goes that AES does not take. They are written
// so that the compiler drops the bounds checks from every turn. On amd64 the same loops go through
// vectors of 16 bytes (add_amd64.s), and these take what is left over.

func addFour32Portable(dst []uint32, r *rows, extra uint32) {
	le := binary.LittleEndian
	_ = r[0][0] // r is not nil: checked once
	for i := range min(len(dst), blockSize/4) {
		dst[i] += extra + le.Uint32(r[0][4*i:]) + le.Uint32(r[1][4*i:]) + le.Uint32(r[2][4*i:]) + le.Uint32(r[3][4*i:])
	}
}

func addFour64Portable(dst []uint64, r *rows, extra uint64) {
	le := binary.LittleEndian
	_ = r[0][0]
	for i := range min(len(dst), blockSize/8) {
		dst[i] += extra + le.Uint64(r[0][8*i:]) + le.Uint64(r[1][8*i:]) + le.Uint64(r[2][8*i:]) + le.Uint64(r[3][8*i:])
	}
}
