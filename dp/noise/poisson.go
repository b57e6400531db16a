package noise

import (
	"errors"
	"fmt"
	"math"
)

// ErrTooLarge is wrapped by the errors of constructors whose argument is valid but too
// large for tables of the promised precision.
var ErrTooLarge = errors.New("too large for a table of the promised precision")

// MaxMean is the largest mean of a Poisson distribution: 64 tables' worth.
const MaxMean = 64 * maxTableMean

// Poisson draws from a Poisson distribution. It is immutable, so any number of
// goroutines may share it, each with its own Bits.
type Poisson struct {
	mean  float64
	parts int // the mean is divided by this power of two, exactly
	table *table
}

// NewPoisson returns the Poisson distribution whose mean is the float64 as it
// is, a dyadic rational, taken without rounding.
//
// A mean above 2^30 is divided by a power of two, and a draw is the sum of that
// many draws of the quotient, which has the same law. The mean must be positive
// and finite and at most MaxMean; above, the error wraps ErrTooLarge.
func NewPoisson(mean float64) (*Poisson, error) {
	if err := checkMean("mean", mean, MaxMean); err != nil {
		return nil, fmt.Errorf("noise: Poisson: %w", err)
	}
	parts, part := 1, mean
	for part > maxTableMean {
		part /= 2
		parts *= 2
	}
	return &Poisson{mean: mean, parts: parts, table: poissonTable(part)}, nil
}

// Mean returns the mean.
func (p *Poisson) Mean() float64 {
	return p.mean
}

// Draw returns one draw. It is meaningless if b has failed; see [Bits.Err].
func (p *Poisson) Draw(b *Bits) uint64 {
	k := p.table.draw(b)
	for range p.parts - 1 {
		k += p.table.draw(b)
	}
	return k
}

// poissonTable returns the table of a mean of at most maxTableMean, from
// p(k+1) = p(k) mean/(k+1), with mean = m/2^s for integers m and s.
func poissonTable(mean float64) *table {
	frac, exp := math.Frexp(mean)
	m, s := uint64(math.Ldexp(frac, 53)), uint(53-exp)
	return newTable(uint64(mean), mean,
		func(k uint64, w uint256) uint256 { return w.mul(m).shr(s).div(k + 1) },
		// Below the mode the mean is at least 1, so s <= 52 and nothing
		// overflows: 171 bits of w, 31 of k, 52 of s.
		func(k uint64, w uint256) uint256 { return w.mul(k).shl(s).div(m) })
}

// checkMean returns an error unless 0 < v <= limit; what names v.
func checkMean(what string, v, limit float64) error {
	switch {
	case !(v > 0) || math.IsInf(v, 1):
		return fmt.Errorf("%s is %v, must be positive and finite", what, v)
	case v > limit:
		return fmt.Errorf("%s is %v, must be at most %v: %w", what, v, limit, ErrTooLarge)
	}
	return nil
}
