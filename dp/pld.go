package dp

import (
	"fmt"
	"math"
	"math/cmplx"
	"sort"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/fedsim/fedsim/internal/lists"
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
	var plain []Event
	for _, e := range c {
		if e.Mechanism.Integer() {
			return nil, fmt.Errorf("%w: accountant %s is for %s and %s events only; found a %s event",
				ErrNoAccountant, PLD, GaussianMechanism, SubsampledGaussianMechanism, e.Mechanism)
		}
		n, z, q := float64(e.Count), e.NoiseMultiplier, e.rate()
		p.releases += n
		square += n / (z * z)
		p.distance += n * q * math.Erf(1/(z*math.Sqrt(8)))
		if q < 1 {
			p.parts = append(p.parts, lossPart{lossOf(e), e.Count})
			continue
		}
		plainSquare += n / (z * z)
		plain = append(plain, e)
	}
	p.mu = math.Sqrt(square)
	if p.sampled = len(p.parts) > 0; p.sampled && len(plain) > 0 {
		one := plain[0]
		if len(plain) > 1 { // plain Gaussians compose to one: no grid for each
			one = Gaussian(1 / math.Sqrt(plainSquare))
		}
		p.parts = append(p.parts, lossPart{lossOf(one), one.Count})
	}
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
	eps, _ := solvedPLD.recall(p.key(delta, ways), func() (float64, error) { return p.onGrids(delta, limit, ways), nil })
	return eps
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
		spectra := lists.Map(p.parts, func(part lossPart) *spectrum { return part.loss.spectrum(grid, d, part.count) })
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

// lossCurve bounds δ as a function of ε, for a composition in one direction.
type lossCurve struct {
	grid      lossGrid
	tilt      float64 // of the direction
	releases  float64
	logMoment float64      // log M of the whole composition
	inflate   float64      // factor for the error of the masses
	lost      float64      // probability of what was cut off
	terms     []complex128 // Fourier series of δ·e^(λε)/M
	slack     float64      // bound on the error of terms
}

// newLossCurve prepares a curve for chernoff; the other methods need its transform.
func newLossCurve(grid lossGrid, d direction, parts []lossPart, spectra []*spectrum) *lossCurve {
	c := &lossCurve{grid: grid, tilt: grid.tilt[d]}
	var logInflate float64
	for i, s := range spectra {
		n := float64(parts[i].count)
		c.releases += n
		c.logMoment += n * s.logMoment
		logInflate += n * s.massError
	}
	c.inflate = math.Exp(logInflate)
	c.lost = c.releases * math.Exp(-grid.cut*grid.cut/2)
	return c
}

// chernoff bounds δ at eps without the series:
// max(0, 1 - e^-y) <= e^(λy)·sup_t (1 - e^-t)·e^(-λt) at y = L - ε.
func (c *lossCurve) chernoff(eps float64) float64 {
	return c.lost + c.inflate*math.Exp(c.logMoment-c.tilt*eps-c.tilt*math.Log1p(1/c.tilt))/(1+c.tilt)
}

// transform multiplies the powers of the parts' series.
func (c *lossCurve) transform(parts []lossPart, spectra []*spectrum) {
	size := c.grid.size
	kept, rest := size, 0.
	all := make([]series, len(spectra))
	for i, s := range spectra {
		all[i] = s.series()
		if n := len(all[i].coefficients); n < kept {
			kept, rest = n, all[i].rest
		}
	}
	c.terms = make([]complex128, kept)
	var sum float64 // of the sizes of all coefficients
	for k := range c.terms {
		product := complex(1, 0)
		for i, s := range all {
			product *= power(s.coefficients[k], parts[i].count)
		}
		weight := 2. // for k and N-k
		if k == 0 || 2*k == size {
			weight = 1
		}
		sum += weight * cmplx.Abs(product)
		c.terms[k] = complex(weight/float64(size), 0) * product * c.kernel(k)
	}
	// With e the error of a coefficient c, the error of c^n is at most n·e·(|c|+e)^(n-1): at most
	// 2.2·n·e·|c|^n if |c| >= 1/2, and 1.1·e elsewhere. In a product with other powers, (|c|+e)^n
	// is at most 2·|c|^n, or so small that n·e times it is nothing beside e. Taking powers loses at
	// most 4 roundoffs a factor, adding the terms one for each. No kernel is larger than the first.
	e := fourierError(size) + 4*unitRoundoff
	sum += 2 * rest
	c.slack = real(c.kernel(0)) / float64(size) * (2*rest + (4.4*e*c.releases+unitRoundoff*float64(kept+32))*sum +
		1.1*e*float64(len(parts))*float64(size))
}

// kernel is the geometric sum Σ_{m>0} (1 - e^(-m·step))·r^m with
// r = e^(-λ·step + 2πi·k/N), without cancellation.
func (c *lossCurve) kernel(k int) complex128 {
	sin, _ := math.Sincos(math.Pi * float64(k) / float64(c.grid.size))
	turn, cos := math.Sincos(2 * math.Pi * float64(k) / float64(c.grid.size))
	complement := func(a float64) complex128 { // 1 - e^(-a + 2πi·k/N)
		decay := math.Exp(-a)
		return complex(2*decay*sin*sin-math.Expm1(-a), -decay*turn)
	}
	a := c.tilt * c.grid.step
	r := complex(math.Exp(-a), 0) * complex(cos, turn)
	return r * complex(-math.Expm1(-c.grid.step), 0) / complement(a) / complement(a+c.grid.step)
}

// power is z^n for n >= 1.
func power(z complex128, n int) complex128 {
	result := complex(1, 0)
	for ; n > 1; n >>= 1 {
		if n&1 == 1 {
			result *= z
		}
		z *= z
	}
	return result * z
}

// delta bounds δ at ε = j·step. It falls with j.
func (c *lossCurve) delta(j int) float64 {
	var sum float64
	turn, mask := 2*math.Pi/float64(c.grid.size), c.grid.size-1
	for k, t := range c.terms {
		sin, cos := math.Sincos(turn * float64(j*k&mask))
		sum += real(t)*cos - imag(t)*sin
	}
	return c.lost + c.inflate*math.Exp(c.logMoment-c.tilt*float64(j)*c.grid.step)*(max(0, sum)+c.slack)
}

// solve finds the smallest ε at which the bound is at most delta, or limit if that is smaller. From
// one grid point to the next the bound is the chord over e^ε.
func (c *lossCurve) solve(delta, limit float64) lossSolution {
	step, end := c.grid.step, math.Ceil(limit/c.grid.step)
	over := func(j float64) float64 { return excess(c.delta(int(j)), delta) }
	first, last := over(0), over(end)
	switch {
	case first <= 0:
		return lossSolution{}
	case last > 0:
		return lossSolution{epsilon: limit}
	}
	met := passed(0, end, first, last, 2, over)
	hi := sort.Search(int(end), func(j int) bool { return met(float64(j)) })
	lo := hi - 1
	above, below := c.delta(lo), c.delta(hi)
	s := lossSolution{epsilon: float64(hi) * step, slope: math.Log(above/below) / step}
	if !math.IsInf(above, 1) {
		part := (above - delta) / (above - below)
		s.epsilon = float64(lo)*step + math.Log1p(part*math.Expm1(step))
	}
	if !(s.epsilon < limit) {
		return lossSolution{epsilon: limit}
	}
	return s
}

// spectrum holds the tilted masses of one release on a grid, in one direction, and their transform.
type spectrum struct {
	logMoment float64 // log Σ_j p_j·e^(λ·l_j), the divisor of the masses
	massError float64 // bound on the relative error of a tilted mass times that sum
	series    func() series
}

// series is Σ_j p̃_j·e^(-2πi·jk/N) for k = 0 to N/2, up to where the requested powers vanish. p̃
// are the tilted masses.
type series struct {
	coefficients []complex128
	rest         float64 // bounds the sum of the powers' sizes over the coefficients left out
}

// negligible is the size of a coefficient's power that may be left out.
const negligible = 1e-18

// spectrumKey distinguishes the spectra of one loss.
type spectrumKey struct {
	cut, step, tilt float64
	size            int
	direction       direction
	power           float64 // the smallest power that will be asked for
}

// maxSpectra bounds the memory of a loss that many compositions hold.
const maxSpectra = 16

// spectrum returns the loss's spectrum for compositions with count releases of it.
func (g *gaussianLoss) spectrum(grid lossGrid, d direction, count int) *spectrum {
	low, _ := countRange(count)
	key := spectrumKey{grid.cut, grid.step, grid.tilt[d], grid.size, g.side(d), low}
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.spectra[key]
	if !ok {
		if g.masses == nil || g.masses.step != grid.step || g.masses.cut != grid.cut {
			g.masses = newLossMasses(g, grid.step, grid.cut)
		}
		if g.spectra == nil || len(g.spectra) >= maxSpectra {
			g.spectra = map[spectrumKey]*spectrum{}
		}
		s = newSpectrum(g.masses, key)
		g.spectra[key] = s
	}
	return s
}

// newSpectrum tilts the masses; the transform waits until it is needed.
func newSpectrum(m *lossMasses, key spectrumKey) *spectrum {
	// The masses are already masses under the mixture.
	slope := (key.direction.order(key.tilt) - 1) * m.step
	tilted := make([]float64, len(m.p))
	top := math.Inf(-1)
	for i, p := range m.p {
		tilted[i] = math.Log(p) + slope*float64(m.first+i)
		top = max(top, tilted[i])
	}
	var sum float64
	for i, t := range tilted {
		tilted[i] = math.Exp(t - top)
		sum += tilted[i]
	}
	for i := range tilted {
		tilted[i] /= sum
	}
	largest := math.Abs(slope) * float64(max(-m.first, m.first+len(m.p)))
	return &spectrum{
		logMoment: top + math.Log(sum),
		massError: massError + 4*unitRoundoff*largest,
		series:    sync.OnceValue(func() series { return transform(key, m.first, tilted) }),
	}
}

// transform wraps the tilted masses, which begin at cell first, around the grid. If the unit is
// added, losses have the other sign.
func transform(key spectrumKey, first int, tilted []float64) series {
	size := key.size
	wrapped := make([]float64, size)
	for i, t := range tilted {
		j := first + i
		if key.direction == added {
			j = -j
		}
		wrapped[j&(size-1)] += t
	}
	c := fourier.NewFFT(size).Coefficients(nil, wrapped)
	kept := len(c)
	for smallest := math.Pow(negligible, 1/key.power); kept > 1 && cmplx.Abs(c[kept-1]) <= smallest; {
		kept--
	}
	return series{
		coefficients: append([]complex128(nil), c[:kept]...),
		rest:         negligible * float64(len(c)-kept),
	}
}

// unitRoundoff is half the distance from 1 to the next float64.
const unitRoundoff = 0x1p-53

// fourierError bounds the error of every coefficient of n non-negative numbers with sum 1. A
// coefficient is their sum with unit factors. A number goes through at most log2(n)/2 + 2 passes,
// with an error of at most 32 roundoffs in each. Up to 26 of them are for a factor, whose angle is
// below 2π and rounded four times; the others are for the arithmetic.
func fourierError(n int) float64 {
	return 32 * unitRoundoff * (math.Log2(float64(n))/2 + 2)
}
