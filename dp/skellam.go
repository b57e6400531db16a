package dp

import (
	"fmt"
	"math"
)

// The region in which a Gaussian with μ = (1 + 0.2/V)·d/√V was found to dominate the
// Skellam distribution of variance V under integer shifts d. The certificate test of this
// package finds that 1 + 0.173/V is enough over the whole grid; the largest factor is
// needed at the centre of the distribution. That is numerical evidence, not a proof, and
// is used in this region only.
const (
	CertifiedMinVariance = 16.0
	CertifiedMaxVariance = 1e9
	CertifiedMaxShift    = 8.0 // in standard deviations: D2 <= 8·√V
)

var certifiedRegion = fmt.Sprintf("variance from %g to %g and L2 sensitivity up to %g·√variance",
	CertifiedMinVariance, CertifiedMaxVariance, CertifiedMaxShift)

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

// Certified says whether the event is one that GDPSkellam charges as a
// Gaussian. Events of the Gaussian mechanisms need no certificate.
func (e Event) Certified() bool {
	return !e.Mechanism.Integer() ||
		e.Variance >= CertifiedMinVariance && e.Variance <= CertifiedMaxVariance &&
			e.L2*e.L2 <= CertifiedMaxShift*CertifiedMaxShift*e.Variance
}

// gaussianStandIn is the Gaussian event that GDPSkellam charges for e. The
// coordinates of a release shift by d_j each and are independent, so their
// μ_j = (1 + 0.2/V)·d_j/√V compose to (1 + 0.2/V)·D2/√V.
func gaussianStandIn(e Event) Event {
	z := math.Sqrt(e.Variance) / e.L2 / (1 + 0.2/e.Variance)
	switch e.Mechanism {
	case SkellamMechanism:
		return Gaussian(z)
	case SubsampledSkellamMechanism:
		return SubsampledGaussian(z, e.SamplingRate)
	default:
		return e
	}
}

// gdpSkellamBound replaces Skellam events by their Gaussians and takes the
// tightest accountant for what results: exact, or PLD where something is
// subsampled. One event outside the certified region sends the whole
// composition to Rényi. used names what the answer rests on.
func gdpSkellamBound(c composition) (b privacyBound, used Accountant, err error) {
	stood := make(composition, 0, len(c))
	for _, t := range c {
		if !t.loss.event.Certified() {
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
