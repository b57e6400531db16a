package config

import (
	"fmt"
	"math"
	"strconv"
)

// Number is a number, or the word auto, which lets fedsim choose. In files and flags inf stands for
// +Inf.
type Number struct {
	Value float64
	Given bool
}

// Auto lets fedsim choose.
var Auto = Number{}

// Fixed is a given number.
func Fixed(v float64) Number { return Number{Value: v, Given: true} }

// Or is the number, or def for auto.
func (n Number) Or(def float64) float64 {
	if n.Given {
		return n.Value
	}
	return def
}

// String returns the form that [Config.Set] reads.
func (n Number) String() string {
	switch {
	case !n.Given:
		return "auto"
	case math.IsInf(n.Value, 1):
		return "inf"
	default:
		return strconv.FormatFloat(n.Value, 'g', -1, 64)
	}
}

// parseNumber reads a number, auto or inf.
func parseNumber(s string) (Number, error) {
	switch s {
	case "auto":
		return Auto, nil
	case "inf", ".inf":
		return Fixed(math.Inf(1)), nil
	}
	v, err := parseFloat(s)
	if err != nil {
		return Auto, fmt.Errorf("%q is not a number, inf or auto", s)
	}
	return Fixed(v), nil
}

// parseFloat reads a finite number.
func parseFloat(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}
