package noise

import "math"

// The functions of package math may differ in their last bits from one architecture to another. The
// functions of this file do not: they use operations that IEEE 754 rounds correctly. Conversions to
// float64 keep a compiler from fusing products with sums, also if it expands a call in place.

// ln2Hi + ln2Lo is the logarithm of 2; ln2Hi ends in zeros, so that small
// multiples of it are exact.
const (
	ln2Hi = 0x1.62e42feep-1
	ln2Lo = 0x1.a39ef35793c76p-33
)

// inverseFactorials holds 1/n! for the terms of exp.
var inverseFactorials = [...]float64{
	1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880,
	1. / 3628800, 1. / 39916800, 1. / 479001600, 1. / 6227020800,
}

// exp returns e^x for -700 <= x <= 700, within two units of the last place. It
// is the Taylor series at x - k·log 2, which is at most 0.35, times 2^k; the
// first term left out is below 5e-18.
func exp(x float64) float64 {
	k := math.RoundToEven(x / math.Ln2)
	r := x - float64(k*ln2Hi) - float64(k*ln2Lo)
	sum := 0.0
	for i := len(inverseFactorials) - 1; i >= 0; i-- {
		sum = inverseFactorials[i] + float64(sum*r)
	}
	return float64(sum * math.Float64frombits(uint64(1023+int64(k))<<52))
}

// log returns the natural logarithm of x, for 2^-1000 <= x <= 2^1000, with an
// error below 4e-16 or two units of the last place, whichever is more. It solves
// exp(y) = x by Halley's method: an error e becomes e³/12, from 0.35 at first to
// far below the rounding after three steps.
func log(x float64) float64 {
	_, e := math.Frexp(x)
	y := float64((float64(e) - 0.5) * math.Ln2)
	for range 3 {
		z := exp(y)
		y += float64(2 * ((x - z) / (x + z)))
	}
	return y
}
