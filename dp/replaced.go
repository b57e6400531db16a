package dp

import (
	"math"
	"slices"
)

// ForReplacement returns the budget for add-remove with which b holds if one unit is replaced by
// another: (ε/2, δ/(1 + e^(ε/2))). [Statement.Replacement] has the proof. Poisson samples, whose
// accountants know only units that are present or absent, use it to protect a label that is
// replaced: the data set without the example lies between the two. [Budget.Replaced] is the way
// back.
func (b Budget) ForReplacement() Budget {
	b.Epsilon /= 2
	b.Delta /= 1 + math.Exp(b.Epsilon)
	return b
}

// Replaced converts spent, the ε of a run that was calibrated by ForReplacement, to replacement of
// one unit: 2ε, at b's δ.
func (b Budget) Replaced(spent Result) Result {
	spent.Epsilon *= 2
	return spent
}

// Replaced returns an upper bound on ε at the problem's δ for the other neighbours: data sets A and
// B in which one unit is replaced by another. Both are neighbours of the set E without the unit.
//
// A release without samples moves at most twice as far between A and B as from E. So Replaced
// doubles the sensitivities, which is exact for Gaussians. With samples, two steps lead from A over
// E to B. If the releases are (ε₁, δ₁)-private and (ε₂, δ₂)-private under add-remove, then for any
// event S
//
//	P[A] <= e^ε₁·P[E] + δ₁ <= e^ε₁(e^ε₂·P[B] + δ₂) + δ₁ = e^(ε₁+ε₂)·P[B] + δ₁ + e^ε₁·δ₂.
//
// The first step takes the unit away, and the second adds one. The accountant gives ε₁ for δ₁ = t·δ,
// and ε₂ for δ₂ = (1-t)·δ·e^-ε₁; PLD gives each for its own direction. The sum is a bound at δ for
// every t in (0, 1). Sampling never raises δ, which is jointly convex: so the bound without samples
// limits the sum. For Gaussians without samples, where the least ε is known, two steps would exceed
// it by less than 0.2%. With samples they exceed it by up to a half. Of a private search, the curve of each run is
// converted (renyiCurve.replaced).
func (p Problem) Replaced() (Result, error) {
	if len(p.Searches) > 0 {
		if err := p.Validate(); err != nil {
			return Result{}, err
		}
		return p.searched(renyiCurve.replaced)
	}
	doubled := slices.Clone(p.Events)
	sampled := false
	for i := range doubled {
		sampled = sampled || doubled[i].Mechanism.Sampled()
		doubled[i] = doubled[i].doubled()
	}
	problem := p
	problem.Events = doubled
	limit, err := problem.Epsilon()
	if err != nil || !sampled {
		return limit, err
	}
	r, err := p.Epsilon()
	if err != nil {
		return Result{}, err
	}
	c, err := compose(p.Events)
	if err != nil {
		return Result{}, err
	}
	b, _, err := r.Accountant.bound(c)
	if err != nil {
		return Result{}, err
	}
	r.Epsilon = min(settings{p.Accountant, p.Delta, p.SamplerError}.solve(twoSteps{b}), limit.Epsilon)
	return r, nil
}

// doubled returns the event without samples whose sensitivities are twice as large.
func (e Event) doubled() Event {
	if e.Mechanism.Integer() {
		return Skellam(e.Variance, 2*e.L2, 2*e.L1).Times(e.Count)
	}
	return Gaussian(e.NoiseMultiplier / 2).Times(e.Count)
}

// twoSteps is the privacyBound of two neighbours in a row, see Problem.Replaced.
type twoSteps struct{ step privacyBound }

func (b twoSteps) epsilon(delta float64) float64 {
	least := math.Inf(1)
	for _, t := range []float64{0.25, 0.5, 0.75} {
		first := b.along(t*delta, removed)
		least = min(least, first+b.along((1-t)*delta*math.Exp(-first), added))
	}
	return least
}

// along returns ε of one step in a direction; of both directions if the accountant has one bound for
// them.
func (b twoSteps) along(delta float64, way direction) float64 {
	if p, ok := b.step.(pldComposition); ok {
		return p.along(delta, way)
	}
	return b.step.epsilon(delta)
}
