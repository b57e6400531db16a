package dp

import (
	"errors"
	"math"

	"github.com/fedsim/fedsim/internal/problems"
)

// Fixed describes vectors that are scaled and rounded to the nearest integers.
type Fixed struct {
	L2         float64 // C, bound on the L2 norm before scaling, positive
	L1         float64 // bound on the L1 norm before scaling; 0: no bound is known
	Scale      float64 // s, integers per unit, positive
	MaxNonZero int     // h, public cap on the non-zero coordinates, at least 1; without a cap, the length
}

// Validate reports every fault of the description.
func (f Fixed) Validate() error {
	var errs problems.List
	errs.If(!(f.L2 > 0) || math.IsInf(f.L2, 1), "dp: L2 bound is %v; it must be positive and finite", f.L2)
	errs.If(!(f.L1 >= 0) || math.IsInf(f.L1, 1), "dp: L1 bound is %v; it must be positive and finite, or 0 for none", f.L1)
	errs.If(!(f.Scale > 0) || math.IsInf(f.Scale, 1), "dp: scale is %v; it must be positive and finite", f.Scale)
	errs.If(f.MaxNonZero < 1, "dp: max-non-zero is %d; it must be at least 1", f.MaxNonZero)
	return errors.Join(errs...)
}

// IntegerBounds returns the sensitivities of the integer vectors of f. D2 = s·C + √h/2, since
// rounding moves each of h coordinates by at most 1/2. D1 = min(√h·D2, D2²), since |x| <= x² for
// integers. With an L1 bound D1 is also at most s·L1 + h/2, but never below D2. Both are NaN, which
// no event accepts, for an f that Validate refuses.
func IntegerBounds(f Fixed) (d2, d1 float64) {
	if f.Validate() != nil {
		return math.NaN(), math.NaN()
	}
	h := float64(f.MaxNonZero)
	d2 = f.Scale*f.L2 + math.Sqrt(h)/2
	d1 = min(math.Sqrt(h)*d2, d2*d2)
	if f.L1 > 0 {
		d1 = min(d1, f.Scale*f.L1+h/2)
	}
	return d2, max(d1, d2)
}
