package dp

import (
	"fmt"
	"math"
)

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

// bisectionSteps suffices to halve an interval to the last bit of a float64.
const bisectionSteps = 200

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
	lo, hi := 0.0, mu*mu/2+mu*math.Sqrt(2*math.Log(1/delta))
	for GaussianDelta(hi, mu) > delta {
		lo, hi = hi, 2*hi
	}
	for range bisectionSteps {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if GaussianDelta(mid, mu) > delta {
			lo = mid
		} else {
			hi = mid
		}
	}
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
	lo, hi := 0.0, 1.0
	for GaussianDelta(epsilon, hi) <= delta {
		lo, hi = hi, 2*hi
	}
	for range bisectionSteps {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if GaussianDelta(epsilon, mid) <= delta {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// gaussianMu is a composition of Gaussians, which is one Gaussian with
// μ² = Σ μ_t².
type gaussianMu float64

func (mu gaussianMu) epsilon(delta float64) float64 { return GaussianEpsilon(float64(mu), delta) }

func exactComposition(c composition) (privacyBound, error) {
	if m, found := c.first(func(m Mechanism) bool { return m != GaussianMechanism }); found {
		return nil, fmt.Errorf("%w: accountant %s is for %s events only; found a %s event",
			ErrNoAccountant, Exact, GaussianMechanism, m)
	}
	var square float64
	for _, t := range c {
		z := t.loss.event.NoiseMultiplier
		square += float64(t.count) / (z * z)
	}
	return gaussianMu(math.Sqrt(square)), nil
}
