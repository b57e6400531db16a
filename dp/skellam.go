package dp

import (
	"errors"
	"math"

	"github.com/fedsim/fedsim/internal/problems"
)

// MinGaussianVariance is the least variance at which GDPSkellam charges Skellam noise as a
// Gaussian.
const MinGaussianVariance = 16.0

// skellamExcess is c in the theorem behind GDPSkellam. Take a variance V of at least
// MinGaussianVariance and a vector d of integers. Skellam noise of variance V on each coordinate
// hides the shift d at least as well as normal noise hides a shift of (1 + c/V)·|d|/√V deviations.
// Its trade-off function is nowhere below.
//
// dp/proofs.md has the proof; the tests of this package check its steps by other means.
// The least possible c is about 1/6, at V = 16 as at large V; the proof gives 0.4611 at 16.
const skellamExcess = 0.5

// skellamRenyi bounds D_α of a release with Skellam noise of variance v on
// every coordinate, at integer α >= 2 (Agarwal, Kairouz and Liu 2021, theorem
// 3.5): α·D2²/(2V) + min(((2α-1)·D2² + 6·D1)/(4V²), 3·D1/(2V)). +Inf at other
// orders.
func skellamRenyi(v, d2, d1, alpha float64) float64 {
	if alpha < 2 || alpha != math.Floor(alpha) {
		return math.Inf(1)
	}
	return alpha*d2*d2/(2*v) + min(((2*alpha-1)*d2*d2+6*d1)/(4*v*v), 3*d1/(2*v))
}

// Dominated reports whether a theorem lets GDPSkellam charge the event as a Gaussian. Events of the
// Gaussian mechanisms are Gaussians already.
func (e Event) Dominated() bool {
	return !e.Mechanism.Integer() || e.Variance >= MinGaussianVariance
}

// gaussianStandIn returns the Gaussian event that GDPSkellam charges for e, see skellamExcess. A
// pair that dominates a mechanism also dominates it over Poisson samples, once both are sampled
// (Zhu, Dong and Wang 2022, theorem 11). So a sampled event stands for a sampled event.
func gaussianStandIn(e Event) Event {
	z := math.Sqrt(e.Variance) / e.L2 / (1 + skellamExcess/e.Variance)
	switch e.Mechanism {
	case SkellamMechanism:
		return Gaussian(z)
	case SubsampledSkellamMechanism:
		return SubsampledGaussian(z, e.SamplingRate)
	default:
		return e
	}
}

// gdpSkellamBound replaces Skellam events by their Gaussians and takes the tightest accountant for
// the result: exact, or PLD if a release is subsampled. One event with too little noise for the
// theorem sends the whole composition to Rényi. used names the accountant of the answer.
func gdpSkellamBound(c composition) (b privacyBound, used Accountant, err error) {
	stood := make(composition, 0, len(c))
	for _, t := range c {
		if !t.loss.event.Dominated() {
			b, err = renyiSum(c)
			return b, RDP, err
		}
		if t.loss.event.Mechanism.Integer() {
			used = GDPSkellam
			t.loss = t.loss.standIn()
		}
		stood = append(stood, t)
	}
	underlying := Exact
	if _, sampled := stood.first(Mechanism.Sampled); sampled {
		underlying = PLD
		b, err = pldBound(stood)
	} else {
		b, err = exactComposition(stood)
	}
	if used == "" { // no Skellam among the events: the answer is proved
		used = underlying
	}
	return b, used, err
}

// SamplerError returns the total-variation error of all noise that a run draws: 4·n·L·T·2^-100 for
// n clients, L coordinates per round (all releases together) and T rounds. Each coordinate
// of a client takes two Poisson and two binomial draws with an error of at most 2^-100 each.
// Problem and Budget take the result E as SamplerError, which adds E·(1 + e^ε) to δ. Let P, Q be the exact
// output distributions and P', Q' the drawn ones, each within E of its exact one. Then
// P'(S) <= P(S) + E <= e^ε·Q(S) + δ + E <= e^ε·Q'(S) + δ + E·(1 + e^ε).
func SamplerError(n, L, T int) float64 {
	return math.Ldexp(4*float64(n)*float64(L)*float64(T), -100)
}

// Fixed describes vectors that are scaled and rounded to the nearest integers.
type Fixed struct {
	L2         float64 // C, bound on the L2 norm before scaling, positive
	L1         float64 // bound on the L1 norm before scaling; 0: no bound is known
	Scale      float64 // s, integers per unit, positive
	MaxNonZero int     // h, public cap on the non-zero coordinates, at least 1; without a cap, the length
}

// Validate reports every fault of the description.
func (f Fixed) Validate() error {
	var errs problems.List
	errs.If(!(f.L2 > 0) || math.IsInf(f.L2, 1), "dp: L2 bound is %v; it must be positive and finite", f.L2)
	errs.If(!(f.L1 >= 0) || math.IsInf(f.L1, 1), "dp: L1 bound is %v; it must be positive and finite, or 0 for none", f.L1)
	errs.If(!(f.Scale > 0) || math.IsInf(f.Scale, 1), "dp: scale is %v; it must be positive and finite", f.Scale)
	errs.If(f.MaxNonZero < 1, "dp: max-non-zero is %d; it must be at least 1", f.MaxNonZero)
	return errors.Join(errs...)
}

// IntegerBounds returns the sensitivities of the integer vectors of f. D2 = s·C + √h/2, since
// rounding moves each of h coordinates by at most 1/2. D1 = min(√h·D2, D2²), since |x| <= x² for
// integers. With an L1 bound D1 is also at most s·L1 + h/2, but never below D2. Both are NaN, which
// no event accepts, for an f that Validate refuses.
func IntegerBounds(f Fixed) (d2, d1 float64) {
	if f.Validate() != nil {
		return math.NaN(), math.NaN()
	}
	h := float64(f.MaxNonZero)
	d2 = f.Scale*f.L2 + math.Sqrt(h)/2
	d1 = min(math.Sqrt(h)*d2, d2*d2)
	if f.L1 > 0 {
		d1 = min(d1, f.Scale*f.L1+h/2)
	}
	return d2, max(d1, d2)
}
