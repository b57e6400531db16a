package records

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// ParseRating parses a finite decimal number.
func ParseRating(b []byte) (float64, error) {
	if v, ok := parseShortDecimal(b); ok {
		return v, nil
	}
	if len(b) == 0 {
		return 0, errors.New("rating is empty")
	}
	v, err := strconv.ParseFloat(string(b), 64)
	switch {
	case idtext.IsMissing(b):
		return 0, fmt.Errorf("rating is missing: %s stands for no value", idtext.Quote(b))
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("rating %s is not finite", idtext.Quote(b))
	case err != nil:
		return 0, fmt.Errorf("rating %s is not a number", idtext.Quote(b))
	}
	if v == 0 {
		return 0, nil // -0 too, so that equal ratings have equal digests
	}
	return v, nil
}

// truths lists the words for 1 and for 0 of programs and databases, in lower case.
var truths = map[string]float64{"true": 1, "false": 0, "t": 1, "f": 0, "yes": 1, "no": 0, "y": 1, "n": 0}

// ParseTruth returns 1 for a word such as true, and 0 for one such as false.
func ParseTruth(b []byte) (v float64, is bool) {
	if len(b) > len("false") {
		return 0, false
	}
	v, is = truths[strings.ToLower(string(b))]
	return v, is
}

// parseShortDecimal parses digits with at most one point among or after them, 16 bytes at most, the
// form of nearly every rating. The quotient of two integers below 2^53 is rounded once, so the result
// equals strconv.ParseFloat's.
func parseShortDecimal(b []byte) (v float64, ok bool) {
	if len(b) == 0 || len(b) > 16 || b[0] == '.' {
		return 0, false
	}
	digits, scale, point := uint64(0), uint64(1), false
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			digits = digits*10 + uint64(c-'0')
			if point {
				scale *= 10
			}
		case c == '.' && !point:
			point = true
		default:
			return 0, false
		}
	}
	if digits >= 1<<53 {
		return 0, false
	}
	return float64(digits) / float64(scale), true
}

// scaleError is the error of a rating that matches ErrOffScale.
type scaleError struct{ error }

func (scaleError) Is(target error) bool { return target == dataset.ErrOffScale }

func OffScale(format string, args ...any) error { return scaleError{fmt.Errorf(format, args...)} }

// Stars is a number without an exponent.
func Stars(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
