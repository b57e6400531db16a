package dp

import (
	"fmt"
	"math"
)

// pldComposition computes ε for the accountant PLD. It follows the distribution of the privacy loss
// L = log(dP/dQ)(x), x ~ P, through the composition and reads δ(ε) = E[max(0, 1 - e^(ε-L))] off it.
//
// P and Q are the pair that dominates a release: N(0, z²) and the mixture
// (1-q)·N(0, z²) + q·N(1, z²). P is the mixture if the unit is removed, and Q if it is added (Zhu,
// Dong and Wang 2022). The direction is the same for every release of a run, so the two directions
// are composed apart and the larger ε is taken.
//
// Five steps make the answer an upper bound:
//
//   - Cut. Outcomes farther than cut·z from both means count as leaks:
//     e^(-cut²/2) is added to δ for every release.
//
//   - Grid. A loss between two multiples of a step is shared out to both such
//     that P and Q keep their mass; δ then becomes, between grid points, the
//     chord of a convex function of e^ε (Doroshenko, Ghazi, Kamath, Kumar and
//     Manurangsi 2022). ε rises by second order only, see lossPlan.step.
//
//   - Tilt. Masses are multiplied by e^(λL) and divided by their sum, with λ
//     about the Chernoff exponent of the requested δ. The sum of n tilted
//     losses is spread around the requested ε. So the Fourier transform's
//     absolute error, about 1e-14, is relative to δ, also for a small δ.
//
//   - Wrap. The transform is circular: p(j), the tilted mass of n releases at
//     cell j of N, holds its own mass and the mass that wraps around. No mass
//     is negative, so wrapping only adds. With M the product of the sums
//
//     δ(j·step) <= M·e^(-λ·j·step)·Σ_{m>0} (1 - e^(-m·step))·e^(-λ·m·step)·p(j+m mod N)
//
//     holds on a grid of any length. The chosen length makes the surplus
//     negligible. Over the Fourier coefficients of p, the sum over m is
//     geometric, and p itself is never needed.
//
//   - Rounding. Bounds on the error of masses and transforms are added.
type pldComposition struct {
	parts []lossPart
	// mu is the parameter of the same releases without sampling. Sampling never raises δ, which is
	// jointly convex in P and Q. So the cost of mu limits ε; it is the answer if nothing is
	// sampled.
	mu float64
	// distance bounds the total variation between the two worlds: at a δ of distance or more, ε is
	// 0.
	distance float64
	releases float64
	sampled  bool
}

// lossPart stands for count releases with the same loss.
type lossPart struct {
	loss  *gaussianLoss
	count int
}

// pldBound prepares a composition of Gaussian events, sampled or not.
func pldBound(c composition) (privacyBound, error) {
	var p pldComposition
	var square, plainSquare float64
	var plain []lossPart
	for _, t := range c {
		g := t.loss.pld()
		if g == nil {
			return nil, fmt.Errorf("%w: accountant %s is for %s and %s events only; found a %s event",
				ErrNoAccountant, PLD, GaussianMechanism, SubsampledGaussianMechanism, t.loss.event.Mechanism)
		}
		n := float64(t.count)
		p.releases += n
		square += n / (g.z * g.z)
		p.distance += n * g.q * math.Erf(1/(g.z*math.Sqrt(8)))
		if g.q < 1 {
			p.parts = append(p.parts, lossPart{g, t.count})
			continue
		}
		plainSquare += n / (g.z * g.z)
		plain = append(plain, lossPart{g, t.count})
	}
	p.mu = math.Sqrt(square)
	p.sampled = len(p.parts) > 0
	if len(plain) > 1 { // plain Gaussians compose to one: no grid for each
		plain = []lossPart{{newGaussianLoss(1/math.Sqrt(plainSquare), 1), 1}}
	}
	p.parts = append(p.parts, plain...)
	return p, nil
}

// Beyond these limits ε is in the millions, masses underflow, or rounding adds up to more than a
// thousandth of δ. There the answer is the cost of the same releases without sampling.
const (
	maxPLDMu       = 1e4
	minPLDDelta    = 1e-250
	maxPLDReleases = 1e8
)

func (p pldComposition) epsilon(delta float64) float64 { return p.along(delta, removed, added) }

// along returns ε for the given directions alone.
func (p pldComposition) along(delta float64, ways ...direction) float64 {
	switch {
	case !(delta > 0):
		return math.Inf(1)
	case p.distance <= delta:
		return 0
	}
	limit := GaussianEpsilon(p.mu, delta)
	if limit == 0 || !p.sampled || p.mu > maxPLDMu || delta < minPLDDelta || p.releases > maxPLDReleases {
		return limit
	}
	return solvedPLD.recall(p.key(delta, ways), func() float64 { return p.onGrids(delta, limit, ways) })
}

// onGrids returns ε on the finest grid that changes it, at most limit.
func (p pldComposition) onGrids(delta, limit float64, ways []direction) float64 {
	plan := p.plan(delta)
	grid, ok := plan.grid(p.parts)
	if !ok {
		return limit
	}
	eps := limit
	for {
		found := p.solve(grid, delta, limit, ways)
		eps = min(eps, found.epsilon)
		finer := plan.refine(grid, p.parts, found)
		if finer == grid {
			return eps
		}
		grid = finer
	}
}

// lossSolution is the ε of a δ, and how steep the curve is there.
type lossSolution struct {
	epsilon float64
	slope   float64 // -d log δ/dε; 0 if ε is 0 or the limit
}

// solve takes the largest ε of the directions on a grid, at most limit.
func (p pldComposition) solve(grid lossGrid, delta, limit float64, ways []direction) (most lossSolution) {
	for _, d := range ways {
		spectra := make([]*spectrum, len(p.parts))
		for i, part := range p.parts {
			spectra[i] = part.loss.spectrum(grid, d, part.count)
		}
		c := newLossCurve(grid, d, p.parts, spectra)
		if c.chernoff(most.epsilon) <= delta {
			continue // this direction is cheaper; no need to transform
		}
		c.transform(p.parts, spectra)
		if s := c.solve(delta, limit); s.epsilon > most.epsilon {
			most = s
		}
	}
	return most
}
