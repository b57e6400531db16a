package dp

import "math"

// logHalfErfc returns log(erfc(x)/2), finite far beyond where erfc underflows.
func logHalfErfc(x float64) float64 {
	if x < 5 {
		return math.Log(math.Erfc(x) / 2)
	}
	return math.Log(erfcx(x)/2) - x*x
}

// erfcx returns e^(x²)·erfc(x) for x >= -1, accurate to a few units in the last place.
func erfcx(x float64) float64 {
	if x < 25 {
		// Rounding x² loses up to x²·2^-53 relative in the exponential; a fused multiply-add
		// recovers the rounding error.
		hi := x * x
		lo := math.FMA(x, x, -hi)
		return math.Exp(hi) * (1 + lo) * math.Erfc(x)
	}
	// Asymptotic series 1/(x√π)·Σ (-1)^k (2k-1)!!/(2x²)^k; at x >= 25 its
	// terms fall below a rounding unit long before they grow again.
	sum, t := 1.0, 1.0
	for k := 1.0; math.Abs(t) > 1e-17; k++ {
		t *= -(2*k - 1) / (2 * x * x)
		sum += t
	}
	return sum / (x * math.SqrtPi)
}

// mills returns the Mills ratio Φ(-x)/φ(x) of the standard normal, for x >= -1.
func mills(x float64) float64 {
	return math.Sqrt(math.Pi/2) * erfcx(x/math.Sqrt2)
}

func normalDensity(x float64) float64 {
	return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi)
}

// logAdd returns log(e^a + e^b).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// logSub returns log(e^a - e^b), for a >= b.
func logSub(a, b float64) float64 {
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log(-math.Expm1(b-a))
}
