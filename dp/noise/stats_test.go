package noise

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// alpha is the false-alarm rate of every statistical test of this package: a correct sampler fails
// a test with that probability at most, over the choice of its fixed seed. There are fewer than 200
// tests, so together they stay below 2e-4.
const alpha = 1e-6

// stream returns the bits of a seed. ChaCha8 stands in for the keyed streams of
// a deployment.
func stream(seed byte) *Bits {
	return NewBits(rand.NewChaCha8([32]byte{seed}))
}

// normalLimit is the two-sided limit of a standard normal at alpha.
var normalLimit = distuv.UnitNormal.Quantile(1 - alpha/2)

// varianceScore returns (sample variance - want) in standard errors, for a variable of mean 0 with
// a Skellam's fourth moment 3v^2 + v.
func varianceScore(x []float64, want float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	n := float64(len(x))
	return (sum/n - want) / math.Sqrt((2*want*want+want)/n)
}

// correlationScore returns the correlation in units of its standard error under
// independence.
func correlationScore(x, y []float64) float64 {
	return stat.Correlation(x, y, nil) * math.Sqrt(float64(len(x)))
}

// chiSquareP returns the p-value of counts against expected counts. It joins neighbours until each
// expects 20 or more.
func chiSquareP(counts, expected []float64) float64 {
	var obs, exp []float64
	var o, e float64
	for i := range counts {
		o, e = o+counts[i], e+expected[i]
		if e >= 20 {
			obs, exp = append(obs, o), append(exp, e)
			o, e = 0, 0
		}
	}
	obs[len(obs)-1] += o
	exp[len(exp)-1] += e
	return distuv.ChiSquared{K: float64(len(obs) - 1)}.Survival(stat.ChiSquare(obs, exp))
}

// independenceP returns the p-value of a chi-square test of independence on a
// table of 6 x 6 bins of about equal mass each way.
func independenceP(x, y []float64) float64 {
	const bins = 6
	n := float64(len(x))
	bx, by := quantileBins(x, bins), quantileBins(y, bins)
	var joint [bins][bins]float64
	var mx, my [bins]float64
	for i := range x {
		joint[bx[i]][by[i]]++
		mx[bx[i]]++
		my[by[i]]++
	}
	var obs, exp []float64
	for i := range bins {
		for j := range bins {
			obs = append(obs, joint[i][j])
			exp = append(exp, mx[i]*my[j]/n)
		}
	}
	return distuv.ChiSquared{K: (bins - 1) * (bins - 1)}.Survival(stat.ChiSquare(obs, exp))
}

func quantileBins(x []float64, bins int) []int {
	sorted := slices.Sorted(slices.Values(x))
	out := make([]int, len(x))
	for i, v := range x {
		for b := 1; b < bins && v > sorted[b*len(x)/bins]; b++ {
			out[i] = b
		}
	}
	return out
}

// checkSameLaw compares two samples by Kolmogorov and Smirnov at alpha; for
// integers the test errs towards acceptance.
func checkSameLaw(t *testing.T, name string, x, y []float64) {
	t.Helper()
	d, limit := ksDistance(x, y)
	if d > limit {
		t.Errorf("%s: distribution functions differ by %.4f, limit %.4f", name, d, limit)
	}
}

func ksDistance(x, y []float64) (d, limit float64) {
	d = stat.KolmogorovSmirnov(slices.Sorted(slices.Values(x)), nil, slices.Sorted(slices.Values(y)), nil)
	n, m := float64(len(x)), float64(len(y))
	return d, math.Sqrt(-math.Log(alpha/2) / 2 * (n + m) / (n * m))
}

// checkLaw compares draws with exact probabilities by chi-square at alpha.
func checkLaw(t *testing.T, name string, draws int, draw func() uint64, prob func(float64) float64) {
	t.Helper()
	var counts, expected []float64
	for range draws {
		k := draw()
		for uint64(len(counts)) <= k {
			counts = append(counts, 0)
		}
		counts[k]++
	}
	first := slices.IndexFunc(counts, func(n float64) bool { return n > 0 })
	counts = counts[first:]
	rest := float64(draws)
	for k := range counts {
		e := float64(draws) * prob(float64(first+k))
		expected = append(expected, e)
		rest -= e
	}
	counts, expected = append(counts, 0), append(expected, max(0, rest))
	if p := chiSquareP(counts, expected); p < alpha {
		t.Errorf("%s: chi-square p-value %.2g of %d draws, limit %.2g", name, p, draws, alpha)
	}
}

func sample(n int, draw func() float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = draw()
	}
	return x
}

// TestDetectors: the tests above must reject samples that are slightly wrong; otherwise they would
// show nothing.
func TestDetectors(t *testing.T) {
	src := rand.NewPCG(1, 2)
	const n = 50_000
	normal := func(sigma float64) []float64 {
		return sample(n, distuv.Normal{Sigma: sigma, Src: src}.Rand)
	}
	x, y, wide := normal(10), normal(10), normal(10.5)
	if s := varianceScore(wide, 100); s < normalLimit {
		t.Errorf("a variance 10%% too large scores %.1f", s)
	}
	if d, limit := ksDistance(x, sample(n, distuv.Normal{Mu: 0.6, Sigma: 10, Src: src}.Rand)); d <= limit {
		t.Errorf("a shift of 0.06 standard deviations is accepted, distance %.4f", d)
	}
	mixed, squared := make([]float64, n), make([]float64, n)
	for i := range x {
		mixed[i] = y[i] + 0.05*x[i]
		squared[i] = y[i] + 0.005*x[i]*x[i]
	}
	if s := correlationScore(x, mixed); s < normalLimit {
		t.Errorf("a correlation of 0.05 scores %.1f", s)
	}
	if p := independenceP(x, squared); p > alpha {
		t.Errorf("an uncorrelated dependence has p-value %.2g", p)
	}
	if p := independenceP(x, y); p < alpha {
		t.Errorf("independent samples have p-value %.2g", p)
	}
	counts, expected := make([]float64, 10), make([]float64, 10)
	for i := range counts {
		counts[i], expected[i] = 1000+200*float64(i%2), 1100
	}
	if p := chiSquareP(counts, expected); p > alpha {
		t.Errorf("counts off by 9%% of 1100 have p-value %.2g", p)
	}
}
