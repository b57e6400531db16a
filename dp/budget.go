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

// validateFinite is Validate for calibrations: no noise is the least that an unlimited
// budget asks for, and that is a decision of the caller's.
func (b Budget) validateFinite() error {
	err := b.Validate()
	if math.IsInf(b.Epsilon, 1) {
		err = errors.Join(err, errors.New("dp: budget epsilon is +Inf; a calibration needs a finite one"))
	}
	return err
}
