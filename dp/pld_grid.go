package dp

import (
	"encoding/binary"
	"fmt"
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
	z, q  float64
	cache spectrumCache
}

func newGaussianLoss(z, q float64) *gaussianLoss { return &gaussianLoss{z: z, q: q} }

// eventLoss returns the loss of one release of a Gaussian event, nil for another event.
func eventLoss(e Event) *gaussianLoss {
	switch e.Mechanism {
	case GaussianMechanism:
		return newGaussianLoss(e.NoiseMultiplier, 1)
	case SubsampledGaussianMechanism:
		return newGaussianLoss(e.NoiseMultiplier, e.SamplingRate)
	default:
		return nil
	}
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

// Cache stores the costs of events and compositions for all ledgers that share it. Most clients of
// a simulation have the same compositions. The zero Cache is ready for use, and safe for concurrent
// use. It does not change a ledger's results.
type Cache struct {
	mu     sync.Mutex
	meters map[settings]*meter
}

func (c *Cache) meter(s settings) *meter {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.meters[s]
	if !ok {
		m = &meter{
			settings: s, losses: map[Event]*loss{}, accounts: map[string]*account{},
			empty: &account{spent: Result{Epsilon: 0, Accountant: s.accountant}},
		}
		if c.meters == nil {
			c.meters = map[settings]*meter{}
		}
		c.meters[s] = m
	}
	return m
}

// meter measures compositions under one setting.
type meter struct {
	settings settings
	empty    *account // the account with no charge

	mu       sync.RWMutex
	losses   map[Event]*loss     // by the event with count 1
	accounts map[string]*account // by key, sessions and protection
}

// maxAccounts bounds the memory of a meter whose ledgers diverge. At the bound the meter forgets
// everything, which costs one recomputation of each live account.
const maxAccounts = 1 << 16

// intern returns this meter's loss of an event, the same pointer every time.
func (m *meter) intern(e Event) *loss {
	e.Count = 1
	m.mu.RLock()
	l, ok := m.losses[e]
	m.mu.RUnlock()
	if ok {
		return l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok = m.losses[e]; !ok {
		l = newLoss(e, uint32(len(m.losses)))
		m.losses[e] = l
	}
	return l
}

// account returns the account of some charges of this meter's losses, the same for all ledgers. It
// measures what no ledger had before, and does not keep errors.
func (m *meter) account(charged composition, sessions []lastCharge, protects Protection) (*account, error) {
	var buf [256]byte // enough for ten distinct events without allocating
	key := binary.BigEndian.AppendUint32(buf[:0], uint32(len(charged)))
	for _, t := range charged {
		key = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(key, t.loss.id), uint64(t.count))
	}
	for _, s := range sessions {
		key = binary.BigEndian.AppendUint64(append(key, s.session[:]...), s.round)
	}
	key = fmt.Appendf(key, "%q %q", protects.Unit, protects.Relation)
	m.mu.RLock()
	a, ok := m.accounts[string(key)]
	m.mu.RUnlock()
	if ok {
		return a, nil
	}
	spent, err := m.settings.epsilon(charged)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok = m.accounts[string(key)]; ok {
		return a, nil
	}
	if len(m.accounts) >= maxAccounts {
		clear(m.accounts)
	}
	a = &account{spent: spent, charged: charged, sessions: sessions, protects: protects}
	m.accounts[string(key)] = a
	return a, nil
}

// memory holds what this process has computed. The plan of a run, the run, its parties and its baselines calibrate the
// same noise, and a calibration takes seconds. A value is a function of its key alone, so no result depends on the
// memory.
type memory[V any] struct {
	mu     sync.Mutex
	values map[string]V
}

// maxRemembered bounds a memory. At the bound it forgets everything.
const maxRemembered = 1 << 12

var (
	solvedPLD     memory[float64]    // by pldComposition.key
	sampledCurves memory[renyiCurve] // of subsampled Gaussians, by z and q
)

// recall returns the value of a key, and computes it if the memory has none.
func (m *memory[V]) recall(key []byte, compute func() V) V {
	m.mu.Lock()
	v, ok := m.values[string(key)]
	m.mu.Unlock()
	if ok {
		return v
	}
	v = compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil || len(m.values) >= maxRemembered {
		m.values = make(map[string]V)
	}
	m.values[string(key)] = v
	return v
}

func appendReals(key []byte, list ...float64) []byte {
	for _, x := range list {
		key = binary.BigEndian.AppendUint64(key, math.Float64bits(x))
	}
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
