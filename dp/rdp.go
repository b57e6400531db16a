package dp

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
)

// renyiOrders are the orders α at which divergences are kept: 1.1 to 11 by
// 0.1, the integers to 63, then powers of two to 1024. Tenths of integers, so
// that 2.0 is exactly 2.
var renyiOrders = func() (orders []float64) {
	for i := 11; i <= 110; i++ {
		orders = append(orders, float64(i)/10)
	}
	for i := 12; i <= 63; i++ {
		orders = append(orders, float64(i))
	}
	return append(orders, 128, 256, 512, 1024)
}()

// renyiLogs are log(1-1/α) and log α of renyiOrders: a calibration converts thousands of
// times at the same orders.
var renyiLogs = lists.Map(renyiOrders, func(alpha float64) [2]float64 { return [2]float64{math.Log1p(-1 / alpha), math.Log(alpha)} })

// renyiCurve holds a bound on the Rényi divergence D_α at each of
// renyiOrders; +Inf where the mechanism has none at that order.
type renyiCurve []float64

// eventCurve returns the curve of one release. No caller changes it: curves of sampled releases, which take milliseconds,
// are remembered.
func eventCurve(e Event) (renyiCurve, error) {
	var at func(alpha float64) float64
	switch e.Mechanism {
	case GaussianMechanism:
		at = func(alpha float64) float64 { return gaussianRenyi(e.NoiseMultiplier, alpha) }
	case SubsampledGaussianMechanism:
		at = func(alpha float64) float64 {
			return subsampledGaussianRenyi(e.NoiseMultiplier, e.SamplingRate, alpha)
		}
	case SkellamMechanism:
		at = func(alpha float64) float64 { return skellamRenyi(e.Variance, e.L2, e.L1, alpha) }
	default:
		return nil, fmt.Errorf("%w: accountant %s does not cover %s events; %s does, from a variance of %g",
			ErrNoAccountant, RDP, e.Mechanism, GDPSkellam, MinGaussianVariance)
	}
	compute := func() (renyiCurve, error) { return lists.Map(renyiOrders, at), nil }
	if e.Mechanism == SubsampledGaussianMechanism {
		return sampledCurves.recall(appendReals(nil, e.NoiseMultiplier, e.SamplingRate), compute)
	}
	return compute()
}

// gaussianRenyi returns α/(2z²) (Mironov 2017, corollary 3).
func gaussianRenyi(z, alpha float64) float64 { return alpha / (2 * z * z) }

// renyiSum adds up the curves of a composition (Mironov 2017, proposition 1). An order at which a
// part has no bound stays +Inf and drops out.
func renyiSum(c composition) (renyiCurve, error) {
	sum := make(renyiCurve, len(renyiOrders))
	for _, e := range c {
		curve, err := eventCurve(e)
		if err != nil {
			return nil, err
		}
		floats.AddScaled(sum, float64(e.Count), curve)
	}
	return sum, nil
}

// epsilon converts by Canonne, Kamath and Steinke 2020, proposition 12, at the
// best order: ε = D_α + log((α-1)/α) - (log δ + log α)/(α-1), never below 0.
func (curve renyiCurve) epsilon(delta float64) float64 {
	if !(delta > 0) {
		return math.Inf(1)
	}
	best, logDelta := math.Inf(1), math.Log(delta)
	for i, alpha := range renyiOrders {
		best = min(best, curve[i]+renyiLogs[i][0]-(logDelta+renyiLogs[i][1])/(alpha-1))
	}
	return max(0, best)
}

// StrongComposition returns the ε that strong composition states for steps releases with Gaussian
// noise of a multiplier, each over a Poisson sample of rate in (0, 1], at a total delta in (0, 1).
// It was the published method before Rényi and moments accountants. It holds, and is several times
// their ε, so it serves claims and never a ledger.
//
// One release without sampling is (ε0, δ0) private by the exact bound of the Gaussian mechanism. A
// sampled release is (log(1 + q(e^ε0 - 1)), q·δ0) private; call its ε ε'. k sampled releases are,
// for any δ' (Dwork, Rothblum and Vadhan 2010, theorem III.3), (ε'√(2k·ln(1/δ')) + kε'(e^ε' - 1),
// kqδ0 + δ') private. Half of δ goes to either part.
func StrongComposition(multiplier, rate float64, steps int, delta float64) (float64, error) {
	if !(multiplier > 0) || !(rate > 0 && rate <= 1) || steps < 1 || !(delta > 0 && delta < 1) {
		return 0, fmt.Errorf("dp: strong composition: %d steps, multiplier %v, rate %v, delta %v; steps must be at least 1, the multiplier positive, rate in (0, 1], delta in (0, 1)",
			steps, multiplier, rate, delta)
	}
	k := float64(steps)
	// δ0 is at most 1/2, also for samples so rare that no δ0 below 1 gives q·δ0 = δ/(2k).
	one, err := Problem{Events: []Event{Gaussian(multiplier)}, Delta: delta / (2 * k * max(rate, delta/k)), Accountant: Exact}.Epsilon()
	if err != nil {
		return 0, err
	}
	sampled := math.Log1p(rate * math.Expm1(one.Epsilon))
	return sampled*math.Sqrt(2*k*math.Log(2/delta)) + k*sampled*math.Expm1(sampled), nil
}

// StrongMultiplier returns the least noise multiplier, to a part in 1e9, with at most the target's
// ε by StrongComposition. It fails if more than 1e9 is needed.
func StrongMultiplier(target Budget, steps int, rate float64) (float64, error) {
	low, high := 1e-3, 1e9
	for high/low > 1+1e-9 {
		z := math.Sqrt(low * high)
		e, err := StrongComposition(z, rate, steps, target.Delta)
		if err != nil {
			return 0, err
		}
		if e <= target.Epsilon {
			high = z
		} else {
			low = z
		}
	}
	if high >= 1e9*(1-1e-6) {
		return 0, fmt.Errorf("dp: epsilon %v over %d steps at delta %v needs a noise multiplier beyond 1e9 by strong composition; take a larger epsilon", target.Epsilon, steps, target.Delta)
	}
	return high, nil
}

// subsampledGaussianRenyi bounds D_α of the Gaussian with noise multiplier z over a Poisson sample
// of rate q (Mironov, Talwar and Zhang 2019). With ν0 = N(0, z²), ν1 = N(1, z²), it is log
// A_α/(α-1) where A_α = E_{ν0}[((1-q) + q·ν1/ν0)^α], section 3.3 for integers and other orders.
func subsampledGaussianRenyi(z, q, alpha float64) float64 {
	if q == 1 {
		return gaussianRenyi(z, alpha)
	}
	n := math.Floor(alpha)
	if n == alpha {
		return logMoment(z, q, int(n)) / (alpha - 1)
	}
	// log A is convex in α, so the chord between the neighbouring integers bounds it too. The chord
	// is the better bound if A - 1 is so small that the series, which sums to A, has no digits left
	// for it.
	chord := (n+1-alpha)*logMoment(z, q, int(n)) + (alpha-n)*logMoment(z, q, int(n)+1)
	return min(chord, logMomentSeries(z, q, alpha)) / (alpha - 1)
}

// logMoment returns log A_α at an integer α: the binomial sum Σ
// C(α,k)·(1-q)^(α-k)·q^k·e^(k(k-1)/2z²). The binomial weights add up to 1, so A - 1 is the same sum
// with expm1, whose terms are all positive: small divergences keep their digits.
func logMoment(z, q float64, alpha int) float64 {
	logQ, log1Q := math.Log(q), math.Log1p(-q)
	excess, logBinomial := math.Inf(-1), 0.0
	for k := 1; k <= alpha; k++ {
		logBinomial += math.Log(float64(alpha-k+1) / float64(k))
		if k < 2 {
			continue
		}
		x := float64(k) * float64(k-1) / (2 * z * z)
		logExpm1 := x + math.Log(-math.Expm1(-x))
		excess = logAdd(excess, logBinomial+float64(k)*logQ+float64(alpha-k)*log1Q+logExpm1)
	}
	return logAdd(0, excess)
}

// logMomentSeries bounds log A_α from above at a non-integer α. The integral is split at z0, where
// both parts of the mixture weigh the same. On each side the binomial series in the smaller part
// converges, and its i-th term is a Gaussian tail.
//
// Past α the terms alternate and shrink: they are binomial coefficients times moments of a ratio in
// [0, 1]. So the sum of the terms left out is at most the first of them, which is added. The result
// exceeds log A by at most 2e-7 of A - 1 and 1e-12, the latter relative if log A is above 1.
func logMomentSeries(z, q, alpha float64) float64 {
	const (
		maxTerms  = 20_000
		precision = -16   // stop at e^-16 of A - 1 ...
		floor     = -32   // ... or at e^-32, whichever comes first
		rounding  = 1e-12 // of the logarithm, over all the terms
	)
	logQ, log1Q := math.Log(q), math.Log1p(-q)
	z0 := z*z*(log1Q-logQ) + 0.5
	sum, logBinomial, positive := math.Inf(-1), 0.0, true
	for i := 0.0; ; i++ {
		j := alpha - i
		low := i*logQ + j*log1Q + i*(i-1)/(2*z*z) + logHalfErfc((i-z0)/(math.Sqrt2*z))
		high := j*logQ + i*log1Q + j*(j-1)/(2*z*z) + logHalfErfc((z0-j)/(math.Sqrt2*z))
		t := logBinomial + logAdd(low, high)
		if i > alpha && (t < floor || t < precision+logSub(sum, 0) || i >= maxTerms) {
			sum = logAdd(sum, t)
			break
		}
		if positive {
			sum = logAdd(sum, t)
		} else {
			sum = logSub(sum, t)
		}
		logBinomial += math.Log(math.Abs(j) / (i + 1))
		positive = positive == (j > 0)
	}
	return sum + rounding*(1+math.Abs(sum))
}

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
		return Gaussian(z).Times(e.Count)
	case SubsampledSkellamMechanism:
		return SubsampledGaussian(z, e.SamplingRate).Times(e.Count)
	default:
		return e
	}
}

// gdpSkellamBound replaces Skellam events by their Gaussians and takes the tightest accountant for
// the result: exact, or PLD if a release is subsampled. One event with too little noise for the
// theorem sends the whole composition to Rényi. used names the accountant of the answer.
func gdpSkellamBound(c composition) (b privacyBound, used Accountant, err error) {
	stood, underlying := slices.Clone(c), Exact
	for i, e := range stood {
		if !e.Dominated() {
			b, err = renyiSum(c)
			return b, RDP, err
		}
		if e.Mechanism.Integer() {
			used, stood[i] = GDPSkellam, gaussianStandIn(e)
		}
		if e.Mechanism.Sampled() {
			underlying = PLD
		}
	}
	b, _, err = underlying.bound(stood)
	return b, cmp.Or(used, underlying), err // the latter if no event is Skellam
}

// SamplerError returns the total-variation error of all noise that a run draws: 4·n·L·T·2^-100 for
// n clients, L coordinates per round (all releases together) and T rounds. A client's coordinate
// takes four Poisson and two binomial draws, of 70 tables at most with errors below 2^-107 (package noise).
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
