package dp

import (
	"errors"
	"fmt"
	"math"
)

// Budget is how much privacy may be spent, and how spending is measured. Calibrations
// meet it; a ledger holds what one client may spend over its life.
type Budget struct {
	Epsilon      float64 // positive; +Inf: a ledger counts and does not limit, and there is nothing to calibrate
	Delta        float64 // in (0, 1)
	Accountant   Accountant
	SamplerError float64 // as in Problem
}

// Validate reports everything that is wrong with the budget.
func (b Budget) Validate() error {
	errs := []error{checkSettings(b.Accountant, b.Delta, b.SamplerError)}
	if !(b.Epsilon > 0) {
		errs = append(errs, fmt.Errorf("dp: budget epsilon is %v; it must be positive", b.Epsilon))
	}
	return errors.Join(errs...)
}

// ValidateFinite is Validate for calibrations, for which there must be something to meet.
func (b Budget) ValidateFinite() error {
	errs := []error{checkSettings(b.Accountant, b.Delta, b.SamplerError)}
	if !(b.Epsilon > 0) || math.IsInf(b.Epsilon, 1) {
		errs = append(errs, fmt.Errorf("dp: budget epsilon is %v; it must be positive and finite", b.Epsilon))
	}
	return errors.Join(errs...)
}
