package dataset

import "fmt"

// scaleError is the error of a rating that matches ErrOffScale.
type scaleError struct{ error }

func (scaleError) Is(target error) bool { return target == ErrOffScale }

func offScale(format string, args ...any) error { return scaleError{fmt.Errorf(format, args...)} }
