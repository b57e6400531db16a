package client

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// ErrOutOfBounds is returned for a contribution that breaks a bound of its
// release: the sensitivity that the noise was made for would not hold.
var ErrOutOfBounds = errors.New("contribution is out of bounds")

// rounding allows a float64 norm to exceed a bound that it meets exactly, by
// what the summation may have rounded up. The integers are checked without it.
const rounding = 1e-9

// maxInteger is the largest integer up to which float64 knows every one.
const maxInteger = 1 << 53

// Quantize turns a contribution into integers: values · scale, to nearest. The
// integers' norms are at most the release's declared D2 and D1; where rounding
// to nearest would exceed them the whole vector is rounded towards zero, whose
// L2 norm cannot exceed scale · L2. ErrOutOfBounds is returned for NaN, Inf,
// more non-zeros than declared, and a norm above its bound; nothing is clipped. It
// is logged, and so names the bound and never what broke it.
func Quantize(v protocol.Vector, r protocol.Release) (protocol.Integers, error) {
	if err := checkBounds(v, r); err != nil {
		return protocol.Integers{}, fmt.Errorf("release %q: %w", r.Name, err)
	}
	out := protocol.Integers{Index: slices.Clone(v.Index), Value: make([]int64, len(v.Value))}
	d2, d1 := r.Bounds()
	for i, x := range v.Value {
		if math.Abs(x*r.Scale) > maxInteger {
			return protocol.Integers{}, fmt.Errorf("release %q: %w: a value at scale %g is beyond the integers that a float64 counts", r.Name, ErrOutOfBounds, r.Scale)
		}
		out.Value[i] = int64(math.RoundToEven(x * r.Scale))
	}
	if l2, l1 := norms(out.Value); l2 <= d2*d2 && l1 <= d1 {
		return out, nil
	}
	for i, x := range v.Value {
		out.Value[i] = int64(math.Trunc(x * r.Scale))
	}
	if l2, l1 := norms(out.Value); l2 > d2*d2 || l1 > d1 {
		return protocol.Integers{}, fmt.Errorf("release %q: %w: an integer norm is above the declared %g (L2) or %g (L1)",
			r.Name, ErrOutOfBounds, d2, d1)
	}
	return out, nil
}

func checkBounds(v protocol.Vector, r protocol.Release) error {
	switch {
	case v.Index == nil && len(v.Value) != r.Len:
		return fmt.Errorf("%w: %d coordinates, %d expected", ErrOutOfBounds, len(v.Value), r.Len)
	case v.Index != nil && len(v.Index) != len(v.Value):
		return fmt.Errorf("%w: %d indices for %d values", ErrOutOfBounds, len(v.Index), len(v.Value))
	}
	for k, j := range v.Index {
		if int(j) >= r.Len || k > 0 && v.Index[k-1] >= j {
			return fmt.Errorf("%w: indices must ascend below %d", ErrOutOfBounds, r.Len)
		}
	}
	var l2, l1, largest float64
	nonZero := 0
	for _, x := range v.Value {
		if x != 0 {
			nonZero++
		}
		l2 += x * x
		l1 += math.Abs(x)
		largest = max(largest, math.Abs(x))
	}
	switch {
	case math.IsNaN(l2) || math.IsInf(l2, 0):
		return fmt.Errorf("%w: it is not finite", ErrOutOfBounds)
	case nonZero > r.MaxNonZero:
		return fmt.Errorf("%w: more than the %d non-zero coordinates declared", ErrOutOfBounds, r.MaxNonZero)
	case math.Sqrt(l2) > r.L2*(1+rounding):
		return fmt.Errorf("%w: its L2 norm is above the %g declared", ErrOutOfBounds, r.L2)
	case r.LInf > 0 && largest > r.LInf:
		return fmt.Errorf("%w: a coordinate is above the %g declared", ErrOutOfBounds, r.LInf)
	case r.L1 > 0 && l1 > r.L1*(1+rounding):
		return fmt.Errorf("%w: its L1 norm is above the %g declared", ErrOutOfBounds, r.L1)
	}
	return nil
}

// norms returns the squared L2 norm and the L1 norm.
func norms(v []int64) (l2, l1 float64) {
	for _, x := range v {
		f := float64(x)
		l2 += f * f
		l1 += math.Abs(f)
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

// zeros is a contribution of nothing.
func zeros(p *protocol.Plan) []protocol.Integers {
	out := make([]protocol.Integers, len(p.Releases))
	for i := range out {
		out[i] = protocol.Integers{Index: []uint32{}}
	}
	return out
}
