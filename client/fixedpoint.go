package client

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/fedsim/fedsim/protocol"
)

// ErrOutOfBounds is returned for a contribution that breaks a bound of its release: the
// noise was calibrated for a sensitivity that would not hold.
var ErrOutOfBounds = errors.New("contribution is out of bounds")

// rounding allows a float64 norm to exceed a bound that it meets exactly, by
// what the summation may have rounded up. The integers are checked without it.
const rounding = 1e-9

// maxInteger is the largest integer up to which float64 knows every one.
const maxInteger = 1 << 53

// Quantize converts a contribution to integers: values · scale, rounded to nearest. The integers'
// norms are at most the release's declared D2 and D1. If rounding to nearest would exceed them, the
// whole vector is rounded towards zero; then its L2 norm cannot exceed scale · L2. If the release
// declares a sensitivity, the vector is refused instead. ErrOutOfBounds is returned for NaN, Inf,
// more non-zeros than declared, and a norm above its bound; nothing is clipped. The error may be
// logged, so it names the bound and never the value that broke it.
func Quantize(v protocol.Vector, r protocol.Release) (protocol.Integers, error) {
	largest, err := checkBounds(v, r)
	if err != nil {
		return protocol.Integers{}, fmt.Errorf("release %q: %w", r.Name, err)
	}
	d2, d1 := r.VectorBounds()
	ways := []bool{true, false}
	if r.Sensitivity > 0 { // of neighbours one would be rounded so and the other so, and lie further apart than is declared
		ways = ways[:1]
	}
	for _, nearest := range ways {
		out, l2, l1 := rounded(v, r.Scale, largest, nearest)
		if l2 <= d2*d2 && l1 <= d1 {
			return out, nil
		}
	}
	return protocol.Integers{}, fmt.Errorf("release %q: %w: an integer norm is above the declared %g (L2) or %g (L1)",
		r.Name, ErrOutOfBounds, d2, d1)
}

// checkBounds checks the shape and every bound of a contribution, and returns its
// largest absolute value.
func checkBounds(v protocol.Vector, r protocol.Release) (largest float64, err error) {
	if err = v.Validate(r.Len); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrOutOfBounds, err)
	}
	size := sizeOf(v)
	if v.Factor != nil && size.nonZero > r.MaxNonZero { // some products may be zero
		size.nonZero = 0
		for part := range v.Parts() {
			size.nonZero += sizeOfAll(part).nonZero
		}
	}
	l2, l1, nonZero := size.l2, size.l1, size.nonZero
	largest = size.largest
	switch {
	case math.IsNaN(l2) || math.IsInf(l2, 0):
		err = fmt.Errorf("%w: it is not finite", ErrOutOfBounds)
	case nonZero > r.MaxNonZero:
		err = fmt.Errorf("%w: more than the %d non-zero coordinates declared", ErrOutOfBounds, r.MaxNonZero)
	case math.Sqrt(l2) > r.L2*(1+rounding):
		err = fmt.Errorf("%w: its L2 norm is above the %g declared", ErrOutOfBounds, r.L2)
	case r.LInf > 0 && largest > r.LInf:
		err = fmt.Errorf("%w: a coordinate is above the %g declared", ErrOutOfBounds, r.LInf)
	case r.L1 > 0 && l1 > r.L1*(1+rounding):
		err = fmt.Errorf("%w: its L1 norm is above the %g declared", ErrOutOfBounds, r.L1)
	case largest*r.Scale > maxInteger:
		err = fmt.Errorf("%w: a value at scale %g is beyond the integers that a float64 counts", ErrOutOfBounds, r.Scale)
	}
	return largest, err
}

// size holds the squared L2 norm of numbers, their L1 norm, the largest magnitude, and how many are
// not zero.
type size struct {
	l2, l1, largest float64
	nonZero         int
}

// sizeOf measures a contribution. The size of a product is the product of the sizes, up to rounding.
// Only the number of non-zeros may be smaller, if products are too small for a float64.
func sizeOf(v protocol.Vector) size {
	x := sizeOfAll(v.Value)
	if v.Factor == nil {
		return x
	}
	f := sizeOfAll(v.Factor)
	return size{l2: f.l2 * x.l2, l1: f.l1 * x.l1, largest: f.largest * x.largest, nonZero: f.nonZero * x.nonZero}
}

// sizeOfAll takes sums in four parts, so that additions do not wait for each other.
func sizeOfAll(values []float64) size {
	var parts [4]size
	for ; len(values) >= len(parts); values = values[len(parts):] {
		for i, x := range (*[4]float64)(values) {
			parts[i].add(x)
		}
	}
	for i, x := range values {
		parts[i].add(x)
	}
	s := parts[0]
	for _, p := range parts[1:] {
		s.l2, s.l1, s.largest, s.nonZero = s.l2+p.l2, s.l1+p.l1, max(s.largest, p.largest), s.nonZero+p.nonZero
	}
	return s
}

func (s *size) add(x float64) {
	if x != 0 {
		s.nonZero++
	}
	a := math.Abs(x)
	s.l2 += x * x
	s.l1 += a
	if a > s.largest {
		s.largest = a
	}
}

// rounded returns values · scale as integers, to nearest or towards zero, with their squared L2
// norm and L1 norm. Sparse integers are narrow if the largest fits. A dense vector is not narrow,
// since noise is added to it.
func rounded(v protocol.Vector, scale, largest float64, nearest bool) (out protocol.Integers, l2, l1 float64) {
	out = protocol.Integers{Block: v.Block}
	if v.Index != nil {
		out.Index = append(memory[uint32](&indexPool, len(v.Index))[:0], v.Index...)
	}
	n := len(v.Value)
	if v.Factor != nil {
		n *= len(v.Factor)
	}
	if v.Index != nil && largest*scale <= math.MaxInt32 {
		out.Narrow = memory[int32](&narrowPool, n)
		l2, l1 = roundInto(out.Narrow, v, scale, nearest)
	} else {
		out.Value = make([]int64, n)
		l2, l1 = roundInto(out.Value, v, scale, nearest)
	}
	return out, l2, l1
}

// Memory of sparse integers, as pointers to slices.
var indexPool, narrowPool sync.Pool

// memory returns n numbers, which may be of integers that were given back.
func memory[T int32 | uint32](pool *sync.Pool, n int) []T {
	if known, ok := pool.Get().(*[]T); ok && cap(*known) >= n {
		return (*known)[:n]
	}
	return make([]T, n)
}

// giveBack keeps the memory of integers from [Quantize] that are of no more use.
func giveBack(inputs []protocol.Integers) {
	for i := range inputs {
		if x := &inputs[i]; x.Narrow != nil {
			indexPool.Put(&x.Index)
			narrowPool.Put(&x.Narrow)
		}
	}
}

func roundInto[T int32 | int64](dst []T, v protocol.Vector, scale float64, nearest bool) (l2, l1 float64) {
	if v.Factor == nil {
		return roundRow(dst, 1, v.Value, scale, nearest)
	}
	for _, f := range v.Factor {
		row2, row1 := roundRow(dst, f, v.Value, scale, nearest)
		dst = dst[len(v.Value):]
		l2 += row2
		l1 += row1
	}
	return l2, l1
}

// roundRow rounds a multiple of values.
func roundRow[T int32 | int64](dst []T, f float64, values []float64, scale float64, nearest bool) (l2, l1 float64) {
	dst = dst[:len(values)]
	for i, x := range values {
		x = f * x * scale
		if nearest {
			x = math.RoundToEven(x)
		} else {
			x = math.Trunc(x)
		}
		dst[i] = T(x)
		l2 += x * x
		l1 += math.Abs(x)
	}
	return l2, l1
}

// quantizeAll turns a trainer's vectors into integers, one for each release.
func quantizeAll(p *protocol.Plan, vectors []protocol.Vector) ([]protocol.Integers, error) {
	if len(vectors) != len(p.Releases) {
		return nil, fmt.Errorf("%w: %d vectors for %d releases", ErrOutOfBounds, len(vectors), len(p.Releases))
	}
	out := make([]protocol.Integers, len(vectors))
	for i, v := range vectors {
		var err error
		if out[i], err = Quantize(v, p.Releases[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
