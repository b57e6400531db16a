package read

import (
	"fmt"

	"github.com/fedsim/fedsim/dataset"
)

// scaleError is the error of a rating that matches ErrOffScale.
type scaleError struct{ error }

func (scaleError) Is(target error) bool { return target == dataset.ErrOffScale }

func offScale(format string, args ...any) error { return scaleError{fmt.Errorf(format, args...)} }
