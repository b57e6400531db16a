package records

import "errors"

// recordError is about one record of a file of ratings: the next one may be right.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

// Malformed says that an error is about one record.
func Malformed(err error) error { return recordError{err} }

// IsMalformed reports whether an error is about one record. A quote that is never closed makes
// all that follows it one.
func IsMalformed(err error) bool {
	_, is := errors.AsType[recordError](err)
	return is || errors.Is(err, errBareQuote) || errors.Is(err, errAfterQuote) || errors.Is(err, errUnclosed)
}
