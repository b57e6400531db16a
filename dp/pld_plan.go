package dp

import (
	"math"

	"github.com/fedsim/fedsim/internal/lists"
)

// direction says which side of the pair the loss is drawn from.
type direction int

const (
	removed    direction = iota // the mixture: the unit is in the data that gave the outcome
	added                       // the Gaussian: the unit is in the other data
	directions                  // the number of directions
)

// order returns the power of the mixture's ratio to the Gaussian, under the Gaussian, that makes
// the tilted masses: E_P[e^(λL)] is E[e^((1+λ)L)] or E[e^(-λL)].
func (d direction) order(tilt float64) float64 {
	if d == removed {
		return 1 + tilt
	}
	return -tilt
}

// lossGrid is the grid of losses. A good grid makes the answer tight; any grid makes it a bound.
type lossGrid struct {
	cut  float64             // in standard deviations, see gaussianLoss.spans
	step float64             // between losses
	size int                 // N, a power of two
	tilt [directions]float64 // λ, positive
}

const (
	// finePrecision and coarsePrecision limit the amount that the grid adds to ε, relative to ε, or
	// to 1/λ if that is larger. 1/λ is the change of ε that changes δ by a factor of e. Grids of up
	// to fastGrid cells keep finePrecision; if that takes more cells, coarsePrecision suffices.
	finePrecision   = 5e-6
	coarsePrecision = 4e-5
	// lostShare and wrapShare are the parts of δ that cutting off and wrapping around may take.
	// Either raises ε by that share of 1/λ.
	lostShare = 1e-6
	wrapShare = 1e-6

	minGrid  = 1 << 10
	fastGrid = 1 << 17
	maxGrid  = 1 << 20
	maxCells = 1 << 22 // of one release, which may be wrapped
	maxDecay = 100     // of e^(-λL) from one cell to the next, as an exponent
)

// lossPlan holds the figures that choose a grid. Counts and δ are rounded for it, so that a growing
// composition changes its grid seldom and spectra can be kept. The noise and the rate are not
// rounded, so that ε is smooth in them.
type lossPlan struct {
	cut      float64
	counts   []float64 // of the parts, at most
	releases float64   // all of them
	logDelta float64
	lowest   float64 // the lower of the directions' saddles
	guess    float64 // at ε, often too high for heavy-tailed losses
	ladders  [directions]ladder
}

func (p pldComposition) plan(delta float64) *lossPlan {
	delta = math.Exp2(math.Floor(math.Log2(delta)))
	plan := &lossPlan{counts: make([]float64, len(p.parts)), logDelta: math.Log(delta), lowest: math.Inf(1)}
	for i, part := range p.parts {
		_, plan.counts[i] = countRange(part.count)
		plan.releases += plan.counts[i]
	}
	plan.cut = math.Sqrt(2 * math.Log(plan.releases/(lostShare*delta)))
	e := newEstimate(p.parts, plan.counts, plan.cut)
	var saddles [directions]float64
	for d := range directions {
		saddles[d] = e.saddle(d, plan.logDelta)
		_, mean, _ := e.cumulants(d, saddles[d])
		plan.guess = max(plan.guess, mean)
		plan.lowest = min(plan.lowest, saddles[d])
	}
	for d := range directions {
		// If a loss has an upper end, its saddle rises without use.
		plan.ladders[d] = e.ladder(d, min(saddles[d], 4*plan.lowest))
	}
	return plan
}

// grid chooses a grid by the guess. Not ok: no grid is fine enough.
func (plan *lossPlan) grid(parts []lossPart) (g lossGrid, ok bool) {
	g.cut = plan.cut
	var length float64
	for d := range directions {
		tilt, l := plan.ladders[d].shortest(plan.counts, plan.guess, plan.logDelta)
		g.tilt[d] = tilt
		length = max(length, l)
	}
	g.fit(length, plan.step(finePrecision, plan.guess, plan.lowest), plan.step(coarsePrecision, plan.guess, plan.lowest))
	for _, part := range parts {
		if first, last := part.loss.cells(part.loss.spans(g.cut), g.step); last-first > maxCells {
			return lossGrid{}, false
		}
	}
	return g, g.step > 0 && max(g.tilt[removed], g.tilt[added])*g.step < maxDecay
}

// step returns the widest cells for a relative precision at ε, where δ falls as e^(-slope·ε). On
// average over the positions of losses in their cells the grid adds n·step²·(slope+1)/12 to ε, and
// half as much again at worst.
func (plan *lossPlan) step(precision, epsilon, slope float64) float64 {
	return math.Sqrt(8 * precision * max(epsilon, 1/slope) / (plan.releases * (1 + slope)))
}

// refine adapts a grid to the solution that was found on it if the guess was wrong, as it is for
// heavy-tailed losses. It makes cells narrower where the curve was too steep for them. It makes the
// grid longer if, at the true counts, more than ten times wrapShare may wrap around.
func (plan *lossPlan) refine(g lossGrid, parts []lossPart, found lossSolution) lossGrid {
	if found.slope == 0 {
		return g
	}
	for g.size < maxGrid && g.step > plan.step(coarsePrecision, found.epsilon, found.slope) {
		g.step /= 2
		g.size *= 2
	}
	counts := lists.Map(parts, func(part lossPart) float64 { return float64(part.count) })
	for d := range directions {
		length := plan.ladders[d].length(g.tilt[d], counts, found.epsilon, plan.logDelta+math.Log(10*wrapShare))
		for g.size < maxGrid && float64(g.size)*g.step < length {
			g.size *= 2
		}
	}
	return g
}

// fit sets step and size for a length: the fine step if fastGrid cells are enough for it, otherwise
// up to the coarse step if that helps, otherwise the step that maxGrid allows.
func (g *lossGrid) fit(length, fine, coarse float64) {
	g.size = minGrid
	for g.size < maxGrid && float64(g.size)*fine < length &&
		(g.size < fastGrid || float64(g.size)*coarse < length) {
		g.size *= 2
	}
	g.step = max(min(fine, length/minGrid), length/float64(g.size))
}

// countRange returns the counts that share one plan: the next number of the form 2^k or 3·2^k not
// below n, and the smallest count that shares it.
func countRange(n int) (low, high float64) {
	x := float64(n)
	_, exp := math.Frexp(x)
	half := math.Ldexp(0.5, exp) // the power of two not above x
	switch {
	case n <= 3:
		return x, x
	case x == half:
		return math.Floor(half*3/4) + 1, half
	case x <= half*3/2:
		return half + 1, half * 3 / 2
	default:
		return half*3/2 + 1, 2 * half
	}
}

// estimate holds a composition at a few hundred outcomes per part: enough for
// moments to plan with.
type estimate []estimatePart

type estimatePart struct {
	loss  *gaussianLoss
	count float64
	nodes []estimateNode
}

// estimateNode stands for the outcomes around an x.
type estimateNode struct {
	loss   float64 // L(x)
	weight float64 // logarithm of the Gaussian's mass
}

func newEstimate(parts []lossPart, counts []float64, cut float64) (e estimate) {
	const (
		perSigma = 4
		fine     = 32 // for the last of these: rare large losses may rise up to the cut
	)
	for i, part := range parts {
		g := part.loss
		ep := estimatePart{loss: g, count: counts[i]}
		add := func(low, high float64, n int) {
			dx := (high - low) / float64(n)
			for i := range n {
				loss, logDensity := g.at(low + (float64(i)+0.5)*dx)
				logMass := logDensity - loss + math.Log(dx/(g.z*math.Sqrt(2*math.Pi)))
				ep.nodes = append(ep.nodes, estimateNode{loss, logMass})
			}
		}
		for _, span := range g.spans(cut) {
			last := span[1] - g.z/perSigma
			add(span[0], last, int(math.Ceil((last-span[0])/g.z*perSigma)))
			add(last, span[1], fine)
		}
		e = append(e, ep)
	}
	return e
}

// cumulants returns K(λ) = log E_P[e^(λL)] of the whole loss and its first two
// derivatives, the mean and variance of the tilted loss.
func (e estimate) cumulants(d direction, tilt float64) (k, mean, variance float64) {
	for _, part := range e {
		k1, mean1, variance1 := part.cumulants(d, tilt)
		k += part.count * k1
		mean += part.count * mean1
		variance += part.count * variance1
	}
	return k, mean, variance
}

func (e estimatePart) cumulants(d direction, tilt float64) (k, mean, variance float64) {
	d = e.loss.side(d)
	order := d.order(tilt)
	logs := make([]float64, len(e.nodes))
	top := math.Inf(-1)
	for i, n := range e.nodes {
		logs[i] = n.weight + order*n.loss
		top = max(top, logs[i])
	}
	var s0, s1, s2 float64
	for i, n := range e.nodes {
		w := math.Exp(logs[i] - top)
		s0 += w
		s1 += w * n.loss
		s2 += w * n.loss * n.loss
	}
	mean = s1 / s0
	variance = max(0, s2/s0-mean*mean)
	if d == added {
		mean = -mean
	}
	return top + math.Log(s0), mean, variance
}

// saddle finds the λ at which the saddle-point approximation of δ at the tilted mean is the
// requested δ, or the mean is 0 if that λ is larger.
func (e estimate) saddle(d direction, logDelta float64) float64 {
	enough := func(tilt float64) bool {
		k, mean, variance := e.cumulants(d, tilt)
		return mean >= 0 && k-tilt*mean-math.Log1p(tilt)-math.Log1p(tilt*math.Sqrt(2*math.Pi*variance)) <= logDelta
	}
	lo, hi := 1.0, 1.0
	for hi < 1e15 && !enough(hi) {
		lo, hi = hi, 8*hi
	}
	for lo > 1e-15 && enough(lo) {
		lo, hi = lo/8, lo
	}
	for hi > 1.001*lo {
		mid := math.Sqrt(lo * hi)
		if enough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// ladder is K at tilts from 0 to far above a saddle.
type ladder struct {
	tilts  []float64
	k      [][]float64 // K of one release of each part, by tilt
	saddle int         // where the saddle stands
}

func (e estimate) ladder(d direction, saddle float64) ladder {
	const low, high, ratio = 16, 13, 1.189207115002721 // steps down and up of 2^(1/4)
	l := ladder{tilts: []float64{0}, saddle: low + 1}
	for tilt, i := saddle*math.Pow(ratio, -low), 0; i <= low+high; i++ {
		l.tilts = append(l.tilts, tilt)
		tilt *= ratio
	}
	for _, tilt := range l.tilts {
		l.k = append(l.k, lists.Map(e, func(part estimatePart) float64 {
			k, _, _ := part.cumulants(d, tilt)
			return k
		}))
	}
	return l
}

// exponent is K(λ) - λε of the composition at a rung.
func (l ladder) exponent(rung int, counts []float64, epsilon float64) float64 {
	sum := -l.tilts[rung] * epsilon
	for i, k := range l.k[rung] {
		sum += counts[i] * k
	}
	return sum
}

// maxExponent bounds K(λ) - λε - log δ. The transform's error in δ grows with e to that power, and
// more than wrapShare remains for it.
const maxExponent = 10

// shortest returns the tilt that allows the shortest grid, and that length. Wrapping around then
// adds at most wrapShare to δ at epsilon. The search starts where the exponent is least and goes
// down: tilting magnifies large losses that are rare.
func (l ladder) shortest(counts []float64, epsilon, logDelta float64) (tilt, length float64) {
	least := l.saddle
	for r := l.saddle; r > 0; r-- {
		if l.exponent(r, counts, epsilon) < l.exponent(least, counts, epsilon) {
			least = r
		}
	}
	logShare := logDelta + math.Log(wrapShare)
	limit := max(logDelta+maxExponent, l.exponent(least, counts, epsilon)+3)
	tilt = l.tilts[least]
	length = l.length(tilt, counts, epsilon, logShare)
	for r := least - 1; r >= least-4 && r > 0 && l.exponent(r, counts, epsilon) <= limit; r-- {
		if short := l.length(l.tilts[r], counts, epsilon, logShare); short < length {
			tilt, length = l.tilts[r], short
		}
	}
	return tilt, length
}

// length returns how long the grid must be for wrapping around to add at most e^logShare to δ at
// epsilon. Markov's inequality bounds the mass that comes up from below, for λ' < λ, by
// e^(K(λ') - λ'ε - (λ-λ')·length). It bounds the mass that comes down from above, for λ' > λ, by
// e^(K(λ') - λ'ε - (λ'-λ)·length).
func (l ladder) length(tilt float64, counts []float64, epsilon, logShare float64) float64 {
	below, above := math.Inf(1), math.Inf(1)
	for r, other := range l.tilts {
		need := (l.exponent(r, counts, epsilon) - logShare) / math.Abs(other-tilt)
		switch {
		case other < tilt:
			below = min(below, need)
		case other > tilt:
			above = min(above, need)
		}
	}
	return max(below, above)
}
