package dp

import "math"

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
