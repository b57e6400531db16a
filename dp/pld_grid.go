package dp

import (
	"cmp"
	"encoding/binary"
	"math"
	"sync"
)

// gaussianLoss is the privacy loss of one release with noise multiplier z over a Poisson sample of
// rate q, as a function of the outcome x in units of the sensitivity. With u = (2x-1)/2z² the log
// ratio of N(1, z²) to N(0, z²), the loss is
//
//	L(x) = log(1 - q + q·e^u)
//
// if the unit is removed, and -L(x) if it is added.
type gaussianLoss struct {
	z, q float64

	mu      sync.Mutex // locked while the fields below are read or changed
	masses  *lossMasses
	spectra map[spectrumKey]*spectrum // the latest, at most maxSpectra
}

func newGaussianLoss(z, q float64) *gaussianLoss { return &gaussianLoss{z: z, q: q} }

// rate returns q; 1 for a mechanism without samples.
func (e Event) rate() float64 {
	if e.Mechanism.Sampled() {
		return e.SamplingRate
	}
	return 1
}

// lossOf returns the loss of one release of a Gaussian event, with the spectra that earlier compositions needed.
func lossOf(e Event) *gaussianLoss {
	z, q := e.NoiseMultiplier, e.rate()
	g, _ := latestLosses.recall(appendReals(nil, z, q), func() (*gaussianLoss, error) { return newGaussianLoss(z, q), nil })
	return g
}

// at returns L(x) and the logarithm of the mixture's density at x, without the
// factor 1/(z·√2π), both to a few units in the last place.
func (g *gaussianLoss) at(x float64) (loss, logDensity float64) {
	u := (2*x - 1) / (2 * g.z * g.z)
	r, s := x/g.z, (x-1)/g.z
	if g.q == 1 {
		return u, -s * s / 2
	}
	if u < 30 {
		excess := g.q * math.Expm1(u)
		if math.Abs(excess) < 0.5 {
			loss = math.Log1p(excess)
		} else {
			loss = math.Log((1 - g.q) + g.q*math.Exp(u))
		}
		return loss, loss - r*r/2
	}
	rest := math.Log(g.q + (1-g.q)*math.Exp(-u))
	return u + rest, rest - s*s/2
}

// outcome returns the x at which the loss is l; -Inf if l is below all losses.
func (g *gaussianLoss) outcome(l float64) float64 {
	u := l
	switch {
	case g.q == 1:
	case l <= math.Log1p(-g.q):
		return math.Inf(-1)
	case l > 30:
		u = l - math.Log(g.q) + math.Log1p(-(1-g.q)*math.Exp(-l))
	case l > -1:
		u = math.Log1p(math.Expm1(l) / g.q)
	default:
		u = math.Log((math.Exp(l) - (1 - g.q)) / g.q)
	}
	return g.z*g.z*u + 0.5
}

// side returns the direction that stands for d. Without sampling the two directions are mirror
// images, and one does for both.
func (g *gaussianLoss) side(d direction) direction {
	if g.q == 1 {
		return removed
	}
	return d
}

// spans returns the outcomes within cut·z of one of the means that the directions need: one
// interval, or two if the means are far apart. At most e^(-cut²/2) of the outcome's distribution
// lies outside: 2·Φ(-cut) for a Gaussian and so for a mixture.
func (g *gaussianLoss) spans(cut float64) [][2]float64 {
	w := cut * g.z
	switch {
	case g.q == 1:
		return [][2]float64{{1 - w, 1 + w}}
	case 1-w <= w:
		return [][2]float64{{-w, 1 + w}}
	default:
		return [][2]float64{{-w, w}, {1 - w, 1 + w}}
	}
}

// lossMasses is the mixture's mass inside of the spans, shared among the losses j·step such that
// both sides of the pair keep their mass; p[i] is at j = first + i. The Gaussian's mass is
// p[i]·e^(-j·step), so that one array serves both directions. Every mass is exact to massError,
// relative.
type lossMasses struct {
	step, cut float64
	first     int
	p         []float64
}

func newLossMasses(g *gaussianLoss, step, cut float64) *lossMasses {
	spans := g.spans(cut)
	first, last := g.cells(spans, step)
	mass := make([]float64, last-first+1)
	for _, span := range spans {
		lowest, _ := g.at(span[0])
		x := span[0]
		for j := int(math.Floor(lowest / step)); x < span[1]; j++ {
			end := min(g.outcome(float64(j+1)*step), span[1])
			if end > x {
				lower, upper := g.share(x, end, float64(j)*step, step, cut)
				mass[j-first] += lower
				mass[j+1-first] += upper
				x = end
			}
		}
	}
	return &lossMasses{step, cut, first, mass}
}

// cells returns the grid's lowest and highest loss as multiples of step, with
// one to spare for the rounding of the boundaries.
func (g *gaussianLoss) cells(spans [][2]float64, step float64) (first, last int) {
	lowest, _ := g.at(spans[0][0])
	highest, _ := g.at(spans[len(spans)-1][1])
	return int(math.Floor(lowest/step)) - 1, int(math.Ceil(highest/step)) + 1
}

// For an exponential that changes by e^w over a panel, Gauss-Legendre points miss 5e-7·w⁶ with
// three points and w⁴/4320 with two: less than 1e-12 here, relative. Every factor is smoother than
// that exponential.
const (
	widePanel   = 0.1
	narrowPanel = 0.005
	massError   = 2e-12 // with the rounding of logarithms and exponentials
)

// share integrates the mixture from x to end, where the loss rises from l to l + step, and returns
// the parts of the lower and the upper loss. A loss l + t gives the upper one the part (1 -
// e^-t)/(1 - e^-step), which keeps the other side's mass.
func (g *gaussianLoss) share(x, end, l, step, cut float64) (lower, upper float64) {
	scale := 1 / (g.z * math.Sqrt(2*math.Pi))
	whole := -math.Expm1(-step)
	add := func(x, weight float64) {
		loss, logDensity := g.at(x)
		m := weight * scale * math.Exp(logDensity)
		part := -math.Expm1(l-loss) / whole
		lower += m * (1 - part)
		upper += m * part
	}
	for x < end {
		slope := max(1, min(cut, max(math.Abs(x), math.Abs(x-1))/g.z)) / g.z
		w := min(end-x, widePanel/slope)
		if x+w <= x {
			break // nothing between neighbouring floats
		}
		mid := x + w/2
		if w*slope <= narrowPanel {
			const node = 0.5773502691896257645
			add(mid-node*w/2, w/2)
			add(mid+node*w/2, w/2)
		} else {
			const node = 0.7745966692414833770
			add(mid-node*w/2, 5*w/18)
			add(mid, 8*w/18)
			add(mid+node*w/2, 5*w/18)
		}
		x += w
	}
	return lower, upper
}

// memory holds what this process has computed. The plan of a run, the run, its parties and its baselines calibrate the
// same noise, and a calibration takes seconds. A value is a function of its key alone, so no result depends on the
// memory. Safe for concurrent use.
type memory[V any] struct {
	limit  int // most values, maxAccounts if it is 0; at the limit the memory forgets everything
	mu     sync.Mutex
	values map[string]V
}

var (
	solvedPLD     = memory[float64]{limit: 1 << 12}    // by pldComposition.key
	sampledCurves = memory[renyiCurve]{limit: 1 << 12} // of subsampled Gaussians, by z and q
	latestLosses  = memory[*gaussianLoss]{limit: 8}    // by z and q; each keeps masses and spectra, of megabytes on the longest grids
)

// recall returns the value of a key, the same one every time, and computes it if the memory has none. It does not keep errors.
func (m *memory[V]) recall(key []byte, compute func() (V, error)) (V, error) {
	m.mu.Lock()
	v, ok := m.values[string(key)]
	m.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := compute()
	if err != nil {
		return v, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if first, ok := m.values[string(key)]; ok {
		return first, nil
	}
	if m.values == nil || len(m.values) >= cmp.Or(m.limit, maxAccounts) {
		m.values = make(map[string]V)
	}
	m.values[string(key)] = v
	return v, nil
}

func appendReals(key []byte, list ...float64) []byte {
	key, _ = binary.Append(key, binary.BigEndian, list)
	return key
}

// key distinguishes the cost of a composition at a δ, for the given directions, from all others.
func (p pldComposition) key(delta float64, ways []direction) []byte {
	key := appendReals(nil, delta, p.mu, p.distance, p.releases)
	for _, part := range p.parts {
		key = appendReals(key, part.loss.z, part.loss.q, float64(part.count))
	}
	for _, d := range ways {
		key = append(key, byte(d))
	}
	return key
}
