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

// NewPoisson returns the Poisson distribution of the given mean. The mean is the dyadic rational of
// the float64, taken without rounding.
//
// A mean above 2^30 is divided by a power of two, and a draw is the sum of that many draws of the
// quotient, which has the same law. The mean must be positive and finite and at most MaxMean; above
// MaxMean the error wraps ErrTooLarge.
func NewPoisson(mean float64) (*Poisson, error) {
	if err := checkMean("mean", mean, MaxMean); err != nil {
		return nil, fmt.Errorf("noise: Poisson: %w", err)
	}
	return newPoisson(mean, fewestParts(mean)), nil
}

// newPoisson returns a Poisson with one table, of mean/parts; parts is a power of two.
func newPoisson(mean float64, parts int) *Poisson {
	part := mean / float64(parts)
	return &Poisson{mean: mean, parts: parts, table: tablesInUse.get(tableKey{mean: part}, func() *table { return poissonTable(part) })}
}

// fewestParts returns the least number of parts of a mean that each fit a table.
func fewestParts(mean float64) int {
	parts := 1
	for mean/float64(parts) > maxTableMean {
		parts *= 2
	}
	return parts
}

// partsFor returns the best number of parts of a mean for so many draws. A table of a large mean
// takes long to make, and more parts take longer to draw. The nanoseconds are of an EPYC of 2024;
// they decide on speed alone.
//
// A table of N weights is within 0.75 N 2^-128 + 2^-119 of the exact distribution (see newTable).
// All parts together have at most 2^27 weights, or are the fewest and have 2^26, and they are at
// most 2^16, so that a Poisson is within 2^-101.
func partsFor(mean float64, draws int) int {
	const entry, draw = 160, 12 // nanoseconds of a table's entry, and of drawing a part
	best, least := 0, math.Inf(1)
	for parts := fewestParts(mean); parts <= 1<<16; parts *= 2 {
		weights := float64(28*math.Sqrt(mean/float64(parts))) + 200
		if best > 0 && float64(parts)*weights > 1<<27 {
			break
		}
		if cost := float64(entry*weights) + float64(draw*float64(parts)*float64(draws)); cost < least {
			best, least = parts, cost
		}
	}
	return best
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
