package dp

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrUnattainable is returned by calibrations if no amount of noise meets the budget. Either ε is
// below the smallest value that the accountant's conversion can show at that δ, or the samplers'
// error uses up δ.
var ErrUnattainable = errors.New("dp: no noise meets the budget")

// minNoise and maxNoise limit the search for the noise. The result is never below minNoise. Both
// are far outside practical values.
const (
	minNoise = 1e-6
	maxNoise = 1e18
	// calibrationPrecision is relative; the result is rounded up by at most this share.
	calibrationPrecision = 1e-8
)

// NoiseMultiplier returns the least noise multiplier z with which steps Gaussian releases meet the
// budget, and their cost, at most b.Epsilon. Each release is over a Poisson sample of rate
// samplingRate (1: no sampling). z is within 1e-8 relative of the least, and at least 1e-6. PLD
// rounds ε up by a few 1e-5, relative, and not always by the same amount; its z is as close to the
// least as that.
func NoiseMultiplier(b Budget, steps int, samplingRate float64) (z float64, r Result, err error) {
	return Calibrate(b, func(z float64) []Event {
		if samplingRate == 1 {
			return []Event{Gaussian(z).Times(steps)}
		}
		return []Event{SubsampledGaussian(z, samplingRate).Times(steps)}
	})
}

// SkellamVariance returns the least variance V with which release meets the budget, and its cost,
// at most b.Epsilon. release is a Skellam or SubsampledSkellam event with its sensitivities and
// count; its own variance is ignored. V is within 1e-8 relative of the least, and at least 1e-6.
func SkellamVariance(b Budget, release Event) (v float64, r Result, err error) {
	if !release.Mechanism.Integer() {
		return 0, Result{}, fmt.Errorf("dp: a %s event has no variance to calibrate; use a %s or %s one",
			release.Mechanism, SkellamMechanism, SubsampledSkellamMechanism)
	}
	return CalibrateFactor(b, []float64{1}, func(v float64) []Event {
		release.Variance = v
		return []Event{release}
	})
}

// CalibrateFactor calibrates several releases that share a budget in fixed proportions. It returns
// the least factor for their variances with which all of them together meet the budget, and their
// cost, at most b.Epsilon. events makes the releases of a factor.
//
// There is at least one variance, and all are positive and finite, in any unit. The factor is
// within 1e-8 relative of the least, and leaves the largest variance at 1e-6 or more. Under
// GDPSkellam ε jumps where an event gets enough noise for the theorem; all pieces between jumps
// are searched.
func CalibrateFactor(b Budget, variances []float64, events func(factor float64) []Event) (factor float64, r Result, err error) {
	var starts []float64
	if b.Accountant == GDPSkellam || b.Accountant == Best {
		for _, v := range variances {
			starts = append(starts, MinGaussianVariance/v)
		}
	}
	slices.Sort(starts)
	return calibrate(b, minNoise/max(slices.Max(variances), 1), slices.Compact(starts), events)
}

// Calibrate returns the least noise with which events(noise) meets the budget, and the cost, at
// most b.Epsilon. It calibrates several releases that share a budget: events maps the noise, in any
// unit, to the releases, and more noise must not cost more. The result is within 1e-8 relative of
// the least, and at least 1e-6.
//
// Under GDPSkellam ε jumps where an event has too little noise for the theorem. The budget is met
// all the same, but a smaller noise on the other side of the jump may meet it too. PLD is monotone
// to a few 1e-5, see NoiseMultiplier.
func Calibrate(b Budget, events func(noise float64) []Event) (noise float64, r Result, err error) {
	return calibrate(b, minNoise, nil, events)
}

// calibrate searches the pieces that begin at minNoise and at each of starts, in ascending order.
// On each piece ε falls with the noise. If minNoise lies above the first start, or meets the
// budget, the search continues down to least.
func calibrate(b Budget, least float64, starts []float64, events func(noise float64) []Event) (float64, Result, error) {
	if err := b.ValidateFinite(); err != nil {
		return 0, Result{}, err
	}
	var refused error // why the last tried noise had no ε
	cheapest := math.Inf(1)
	cost := func(noise float64) (Result, float64) {
		r, err := Problem{Events: events(noise), Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError}.Epsilon()
		if err != nil { // perhaps covered at another noise
			refused = err
			return Result{}, math.Inf(1)
		}
		cheapest = min(cheapest, r.Epsilon)
		return r, excess(r.Epsilon, b.Epsilon)
	}
	bounds := append(append([]float64{minNoise}, starts...), math.Inf(1))
	if bounds[0] >= bounds[1] {
		bounds[0] = least
	}
	for i, lo := range bounds[:len(bounds)-1] {
		hi := min(maxNoise, math.Nextafter(bounds[i+1], 0))
		noise, r := searchPiece(lo, hi, cost)
		if i == 0 && noise == minNoise && least < minNoise {
			noise, r = searchPiece(least, minNoise, cost)
		}
		if noise > 0 {
			return noise, r, nil
		}
	}
	if refused != nil && math.IsInf(cheapest, 1) {
		return 0, Result{}, refused
	}
	return 0, Result{}, fmt.Errorf("%w: epsilon %v at delta %v with accountant %s and sampler error %v; the smallest that can be shown is %v",
		ErrUnattainable, b.Epsilon, b.Delta, b.Accountant, b.SamplerError, cheapest)
}

// searchPiece finds the least noise in [lo, hi] that meets the budget, by bisection of its
// logarithm; 0 if hi does not meet the budget. cost returns ε and its excess over the budget.
func searchPiece(lo, hi float64, cost func(noise float64) (Result, float64)) (float64, Result) {
	_, least := cost(hi)
	if !(least <= 0) {
		return 0, Result{}
	}
	r, most := cost(lo)
	if most <= 0 {
		return lo, r
	}
	met := passed(math.Log(lo), math.Log(hi), most, least, calibrationPrecision/4, func(x float64) float64 {
		_, over := cost(min(max(lo, math.Exp(x)), hi))
		return over
	})
	end := hi
	for hi > lo*(1+calibrationPrecision) {
		if mid := math.Sqrt(lo) * math.Sqrt(hi); met(math.Log(mid)) {
			hi = mid
		} else {
			lo = mid
		}
	}
	for step := calibrationPrecision; ; step *= 2 { // once, unless rounding makes ε rise here
		if r, least = cost(hi); least <= 0 {
			return hi, r
		}
		hi = min(hi*(1+step), end)
	}
}

// excess has the sign of value - limit, and is the logarithm of their ratio.
func excess(value, limit float64) float64 { return math.Log1p((value - limit) / limit) }

// passed returns whether f, which falls from first above 0 at lo to last of at most 0 at hi, is at most 0 at x. It asks f where
// inverse quadratic interpolation or bisection leads (Chandrupatla 1997) until two points are width
// apart, and later only between them and within a width, where rounding may decide.
func passed(lo, hi, first, last, width float64, f func(x float64) float64) func(x float64) bool {
	a, b := lo, hi
	fa, fb, part := first, last, 0.5
	for n := 0; n < 100 && math.Abs(b-a) > width; n++ {
		x := a + part*(b-a)
		fx := f(x)
		c, fc := a, fa
		if (fx <= 0) != (fa <= 0) {
			c, fc, b, fb = b, fb, a, fa
		}
		a, fa, part = x, fx, 0.5
		if flat, near := (fa-fb)/(fc-fb), (a-b)/(c-b); flat*flat < near && (1-flat)*(1-flat) < 1-near {
			part = fa/(fb-fa)*fc/(fb-fc) + (c-a)/(b-a)*fa/(fc-fa)*fb/(fc-fb)
		}
		least := min(0.5, width/math.Abs(b-a)/2)
		part = min(max(part, least), 1-least)
	}
	lo, hi = min(a, b)-width, max(a, b)+width
	return func(x float64) bool { return x > hi || x >= lo && f(x) <= 0 }
}

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

// GaussianDelta returns the exact δ of μ-Gaussian differential privacy at epsilon, Φ(-ε/μ + μ/2) -
// e^ε·Φ(-ε/μ - μ/2) (Balle and Wang 2018, theorem 8, with μ = Δ/σ). It keeps its relative accuracy
// where both terms nearly cancel and where e^ε overflows. epsilon and mu must be at least 0;
// otherwise it returns NaN.
func GaussianDelta(epsilon, mu float64) float64 {
	switch {
	case !(epsilon >= 0 && mu >= 0):
		return math.NaN()
	case mu == 0 || math.IsInf(epsilon, 1):
		return 0
	case math.IsInf(mu, 1):
		return 1
	}
	a, b := epsilon/mu-mu/2, epsilon/mu+mu/2
	// e^ε·φ(b) = φ(a), so e^ε·Φ(-b) = φ(a)·R(b) with the Mills ratio R: no
	// large factor meets a small one.
	switch {
	case mu < 0.1:
		// R(a) - R(b) would cancel, so integrate -R'(t) = 1 - t·R(t): five Gauss-Legendre points do
		// it to 1e-15 on so short a step.
		return normalDensity(a) * gaussLegendre(func(t float64) float64 { return 1 - t*mills(t) }, epsilon/mu, mu/2)
	case a < 0:
		return max(0, math.Erfc(a/math.Sqrt2)/2-normalDensity(a)*mills(b))
	default:
		return max(0, normalDensity(a)*(mills(a)-mills(b)))
	}
}

// gaussLegendre integrates f from m-h to m+h with five points.
func gaussLegendre(f func(float64) float64, m, h float64) float64 {
	const (
		x1, w1 = 0.5384693101056830910, 0.4786286704993664680
		x2, w2 = 0.9061798459386639928, 0.2369268850561890875
		w0     = 0.5688888888888888889
	)
	return h * (w0*f(m) + w1*(f(m-h*x1)+f(m+h*x1)) + w2*(f(m-h*x2)+f(m+h*x2)))
}

// bisect halves the interval from 0, where beyond does not hold, to hi, where it holds, to the
// last bit of a float64. It first doubles hi until it holds.
func bisect(hi float64, beyond func(float64) bool) (float64, float64) {
	lo := 0.0
	for !beyond(hi) {
		lo, hi = hi, 2*hi
	}
	for {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			return lo, hi
		}
		if beyond(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
}

// GaussianEpsilon returns the smallest ε >= 0 with GaussianDelta(ε, mu) <= delta, rounded up. It is
// +Inf for delta <= 0 or an infinite mu, and NaN for a negative mu.
func GaussianEpsilon(mu, delta float64) float64 {
	switch {
	case !(mu >= 0):
		return math.NaN()
	case GaussianDelta(0, mu) <= delta:
		return 0
	case !(delta > 0) || math.IsInf(mu, 1):
		return math.Inf(1)
	}
	over := func(epsilon float64) float64 { return excess(GaussianDelta(epsilon, mu), delta) }
	hi := mu*mu/2 + mu*math.Sqrt(2*math.Log(1/delta))
	_, hi = bisect(hi, passed(0, hi, over(0), over(hi), hi*0x1p-42, over))
	return hi
}

// GaussianMu returns the largest μ with GaussianDelta(epsilon, μ) <= delta, rounded down: a release
// of L2 sensitivity Δ may have noise of σ = Δ/μ. It is 0 for delta <= 0, +Inf for delta >= 1, NaN
// for a negative epsilon.
func GaussianMu(epsilon, delta float64) float64 {
	switch {
	case !(epsilon >= 0):
		return math.NaN()
	case !(delta > 0):
		return 0
	case delta >= 1 || math.IsInf(epsilon, 1):
		return math.Inf(1)
	}
	lo, _ := bisect(1, func(mu float64) bool { return !(GaussianDelta(epsilon, mu) <= delta) })
	return lo
}

// gaussianMu is a composition of Gaussians, which is one Gaussian with
// μ² = Σ μ_t².
type gaussianMu float64

func (mu gaussianMu) epsilon(delta float64) float64 { return GaussianEpsilon(float64(mu), delta) }

func exactComposition(c composition) (privacyBound, error) {
	var square float64
	for _, e := range c {
		if e.Mechanism != GaussianMechanism {
			return nil, fmt.Errorf("%w: accountant %s is for %s events only; found a %s event",
				ErrNoAccountant, Exact, GaussianMechanism, e.Mechanism)
		}
		square += float64(e.Count) / (e.NoiseMultiplier * e.NoiseMultiplier)
	}
	return gaussianMu(math.Sqrt(square)), nil
}
