package dp

import "math"

// subsampledGaussianRenyi bounds D_α of the Gaussian with noise multiplier z over a Poisson sample
// of rate q (Mironov, Talwar and Zhang 2019). With ν0 = N(0, z²), ν1 = N(1, z²), it is log
// A_α/(α-1) where A_α = E_{ν0}[((1-q) + q·ν1/ν0)^α], section 3.3 for integers and other orders.
func subsampledGaussianRenyi(z, q, alpha float64) float64 {
	if q == 1 {
		return gaussianRenyi(z, alpha)
	}
	n := math.Floor(alpha)
	if n == alpha {
		return logMoment(z, q, int(n)) / (alpha - 1)
	}
	// log A is convex in α, so the chord between the neighbouring integers bounds it too. The chord
	// is the better bound if A - 1 is so small that the series, which sums to A, has no digits left
	// for it.
	chord := (n+1-alpha)*logMoment(z, q, int(n)) + (alpha-n)*logMoment(z, q, int(n)+1)
	return min(chord, logMomentSeries(z, q, alpha)) / (alpha - 1)
}

// logMoment returns log A_α at an integer α: the binomial sum Σ
// C(α,k)·(1-q)^(α-k)·q^k·e^(k(k-1)/2z²). The binomial weights add up to 1, so A - 1 is the same sum
// with expm1, whose terms are all positive: small divergences keep their digits.
func logMoment(z, q float64, alpha int) float64 {
	logQ, log1Q := math.Log(q), math.Log1p(-q)
	excess, logBinomial := math.Inf(-1), 0.0
	for k := 1; k <= alpha; k++ {
		logBinomial += math.Log(float64(alpha-k+1) / float64(k))
		if k < 2 {
			continue
		}
		x := float64(k) * float64(k-1) / (2 * z * z)
		logExpm1 := x + math.Log(-math.Expm1(-x))
		excess = logAdd(excess, logBinomial+float64(k)*logQ+float64(alpha-k)*log1Q+logExpm1)
	}
	return logAdd(0, excess)
}

// logMomentSeries bounds log A_α from above at a non-integer α. The integral is split at z0, where
// both parts of the mixture weigh the same. On each side the binomial series in the smaller part
// converges, and its i-th term is a Gaussian tail.
//
// Past α the terms alternate and shrink: they are binomial coefficients times moments of a ratio in
// [0, 1]. So the sum of the terms left out is at most the first of them, which is added. The result
// exceeds log A by at most 2e-7 of A - 1 and 1e-12, the latter relative if log A is above 1.
func logMomentSeries(z, q, alpha float64) float64 {
	const (
		maxTerms  = 20_000
		precision = -16   // stop at e^-16 of A - 1 ...
		floor     = -32   // ... or at e^-32, whichever comes first
		rounding  = 1e-12 // of the logarithm, over all the terms
	)
	logQ, log1Q := math.Log(q), math.Log1p(-q)
	z0 := z*z*(log1Q-logQ) + 0.5
	sum, logBinomial, positive := math.Inf(-1), 0.0, true
	for i := 0.0; ; i++ {
		j := alpha - i
		low := i*logQ + j*log1Q + i*(i-1)/(2*z*z) + logHalfErfc((i-z0)/(math.Sqrt2*z))
		high := j*logQ + i*log1Q + j*(j-1)/(2*z*z) + logHalfErfc((z0-j)/(math.Sqrt2*z))
		t := logBinomial + logAdd(low, high)
		if i > alpha && (t < floor || t < precision+logSub(sum, 0) || i >= maxTerms) {
			sum = logAdd(sum, t)
			break
		}
		if positive {
			sum = logAdd(sum, t)
		} else {
			sum = logSub(sum, t)
		}
		logBinomial += math.Log(math.Abs(j) / (i + 1))
		positive = positive == (j > 0)
	}
	return sum + rounding*(1+math.Abs(sum))
}
