package dp

import (
	"errors"
	"math"

	"github.com/fedsim/fedsim/internal/problems"
)

// Budget limits the privacy to be spent, and says how to measure spending. Calibrations meet a
// budget; a ledger enforces one over a client's life.
type Budget struct {
	Epsilon      float64 // positive; with +Inf a ledger counts without a limit, and there is nothing to calibrate
	Delta        float64 // in (0, 1)
	Accountant   Accountant
	SamplerError float64 // as in Problem
}

// Validate reports every fault of the budget.
func (b Budget) Validate() error {
	errs := problems.List{checkSettings(b.Accountant, b.Delta, b.SamplerError)}
	errs.If(!(b.Epsilon > 0), "dp: budget epsilon is %v; it must be positive", b.Epsilon)
	return errors.Join(errs...)
}

// ValidateFinite is Validate for calibrations: it also refuses a budget without a limit.
func (b Budget) ValidateFinite() error {
	errs := problems.List{checkSettings(b.Accountant, b.Delta, b.SamplerError)}
	errs.If(!(b.Epsilon > 0) || math.IsInf(b.Epsilon, 1), "dp: budget epsilon is %v; it must be positive and finite", b.Epsilon)
	return errors.Join(errs...)
}
