package noise

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/internal/effort"
)

// phi is the distribution function of the standard normal, by math.Erfc.
func phi(x float64) float64 {
	return math.Erfc(-x/math.Sqrt2) / 2
}

const (
	lawBlock = 100_000
	lawBins  = 1000 // equally likely
	pairBins = 16   // equally likely, each way
)

var (
	lawLags  = [...]int{1, 2, 3, 8, 1024}
	lawTails = [...]float64{3, 4, baseEdge, 5}
)

// normalTests collects statistics of standard normal draws, or of a suspect law, in blocks.
type normalTests struct {
	n         float64
	bins      [lawBins]float64
	pairs     [pairBins * pairBins]float64
	tails     [len(lawTails)]float64
	moments   [9]float64            // sums of powers
	lags      [len(lawLags)]float64 // sums of x[i]·x[i+lag]
	squareLag [len(lawLags)]float64 // sums of (x[i]²-1)·(x[i+lag]²-1)
	products  [len(lawLags)]float64 // the number of products in lags and squareLag
}

func (s *normalTests) observe(x []float64) {
	s.n += float64(len(x))
	before := 0
	for i, v := range x {
		p := phi(v)
		s.bins[min(lawBins-1, int(lawBins*p))]++
		pair := min(pairBins-1, int(pairBins*p))
		if i%2 == 1 {
			s.pairs[before*pairBins+pair]++
		}
		before = pair
		for k, r := range lawTails {
			if math.Abs(v) > r {
				s.tails[k]++
			}
		}
		power := 1.0
		for k := range s.moments {
			s.moments[k] += power
			power *= v
		}
	}
	for k, lag := range lawLags {
		for i, v := range x[lag:] {
			w := x[i]
			s.lags[k] += v * w
			s.squareLag[k] += (v*v - 1) * (w*w - 1)
		}
		s.products[k] += float64(len(x) - lag)
	}
}

// faults names the tests that fail. Each of the 27 tests has the false-alarm rate alpha, except the
// eighth moment, whose skewness at 10^7 draws doubles it.
func (s *normalTests) faults() []string {
	var out []string
	chi := func(name string, sum float64, k int) {
		if p := (distuv.ChiSquared{K: float64(k)}).Survival(sum); p < alpha {
			out = append(out, fmt.Sprintf("%s: p-value %.2g", name, p))
		}
	}
	score := func(name string, z float64) {
		if math.Abs(z) > normalLimit {
			out = append(out, fmt.Sprintf("%s: %.1f standard errors", name, z))
		}
	}
	equal := func(counts []float64) (sum float64) {
		total := 0.0
		for _, o := range counts {
			total += o
		}
		want := total / float64(len(counts))
		for _, o := range counts {
			sum += (o - want) * (o - want) / want
		}
		return sum
	}
	chi("bins", equal(s.bins[:]), lawBins-1)
	chi("pairs", equal(s.pairs[:]), pairBins*pairBins-1)
	mirrored := 0.0
	for i := range lawBins / 2 {
		o, m := s.bins[i], s.bins[lawBins-1-i]
		mirrored += (o - m) * (o - m) / (o + m)
	}
	chi("symmetry", mirrored, lawBins/2)
	for k, r := range lawTails {
		// A count of rare events: Poisson, which is wider than the binomial.
		law := distuv.Poisson{Lambda: s.n * math.Erfc(r/math.Sqrt2)}
		if p := 2 * min(law.CDF(s.tails[k]), law.Survival(s.tails[k]-1)); p < alpha {
			out = append(out, fmt.Sprintf("tail beyond %.3g: %.0f draws, expected %.1f", r, s.tails[k], law.Lambda))
		}
	}
	for k := 1; k < len(s.moments); k++ {
		variance := normalMoment(2*k) - normalMoment(k)*normalMoment(k)
		score(fmt.Sprintf("moment %d", k), (s.moments[k]-s.n*normalMoment(k))/math.Sqrt(variance*s.n))
	}
	for k, lag := range lawLags {
		score(fmt.Sprintf("lag %d", lag), s.lags[k]/math.Sqrt(s.products[k]))
		score(fmt.Sprintf("squares, lag %d", lag), s.squareLag[k]/math.Sqrt(4*s.products[k]))
	}
	return out
}

// normalMoment is the k-th moment of the standard normal, 1·3·5···(k-1) or zero.
func normalMoment(k int) float64 {
	if k%2 == 1 {
		return 0
	}
	m := 1.0
	for i := 1; i < k; i += 2 {
		m *= float64(i)
	}
	return m
}

// TestGaussianLaw: 2·10^6 draws by the tests above and 4·10^5 of them by Kolmogorov and Smirnov.
// Long tests take five times as many and 10^6.
func TestGaussianLaw(t *testing.T) {
	effort.NotShort(t, "a hundred thousand draws")
	b := stream(60)
	blocks, most := effort.Of(0, 20, 100), effort.Of(0, 400_000, 1_000_000)
	var tests normalTests
	var kept []float64
	for range blocks {
		x := normals(t, 1, lawBlock, b)
		tests.observe(x)
		if len(kept) < most {
			kept = append(kept, x...)
		}
	}
	for _, fault := range tests.faults() {
		t.Error(fault)
	}
	checkContinuous(t, "whole draws", kept, phi)
}

// checkContinuous compares a sample, which it sorts, with a distribution function
// by Kolmogorov and Smirnov at alpha.
func checkContinuous(t *testing.T, name string, x []float64, cdf func(float64) float64) {
	t.Helper()
	if d, limit := continuousDistance(x, cdf); d > limit {
		t.Errorf("%s: distribution functions differ by %.5f, limit %.5f of %d draws", name, d, limit, len(x))
	}
}

// continuousDistance sorts x. The limit is Massart's bound, of any sample size.
func continuousDistance(x []float64, cdf func(float64) float64) (d, limit float64) {
	slices.Sort(x)
	n := float64(len(x))
	for i, v := range x {
		p := cdf(v)
		d = max(d, p-float64(i)/n, float64(i+1)/n-p)
	}
	return d, math.Sqrt(-math.Log(alpha/2) / 2 / n)
}

// TestGaussianLawRejects: a sampler that is slightly wrong fails the test made for its fault.
// Twenty blocks are 2·10^6 draws.
func TestGaussianLawRejects(t *testing.T) {
	effort.LongOnly(t, "draws of many wrong laws take seconds")
	uniforms := stream(61)
	for _, c := range []struct {
		name, fault string
		spoil       func(x []float64)
	}{
		{"variance 1.4% too large", "moment 2", func(x []float64) {
			for i := range x {
				x[i] *= 1.007
			}
		}},
		{"mean 0.007", "moment 1", func(x []float64) {
			for i := range x {
				x[i] += 0.007
			}
		}},
		{"sum of 12 uniforms", "moment 4", func(x []float64) {
			for i := range x {
				x[i] = -6
				for range 12 {
					x[i] += unit(uniforms.Uint64())
				}
			}
		}},
		{"no draw beyond 4", "tail beyond 4:", func(x []float64) {
			for i, v := range x {
				if math.Abs(v) > 4 {
					x[i] = v / 2
				}
			}
		}},
		{"more beyond 3", "tail beyond 3:", func(x []float64) {
			for i, v := range x {
				if math.Abs(v) > 2.97 {
					x[i] = v * 1.01
				}
			}
		}},
		{"a gap at 0.5", "bins", func(x []float64) {
			for i, v := range x {
				if a := math.Abs(v); a > 0.5 && a < 0.502 {
					x[i] = v * 1.01
				}
			}
		}},
		{"sign follows a bit of the magnitude", "symmetry", func(x []float64) {
			for i, v := range x {
				if a := math.Abs(v); i%8 == 0 {
					x[i] = math.Copysign(a, math.Mod(a, 0.02)-0.01)
				}
			}
		}},
		{"each second draw takes over a sign", "lag 1:", func(x []float64) {
			for i := 1; i < len(x); i += 100 {
				x[i] = math.Copysign(x[i], x[i-1])
			}
		}},
		{"a share of 0.007 of the eighth last", "lag 8:", func(x []float64) {
			for i := len(x) - 1; i >= 8; i-- {
				x[i] += 0.007 * x[i-8]
			}
		}},
		{"large draws come together", "squares, lag 2", func(x []float64) {
			for i := 2; i < len(x); i += 3 {
				x[i] *= math.Sqrt(1 + 0.02*(x[i-2]*x[i-2]-1))
			}
		}},
		{"pairs of opposite sizes", "pairs", func(x []float64) {
			for i := 1; i < len(x); i += 40 {
				x[i] = math.Copysign(1/(0.5+math.Abs(x[i-1])), x[i])
			}
		}},
	} {
		b := stream(62)
		var tests normalTests
		for range 20 {
			x := normals(t, 1, lawBlock, b)
			c.spoil(x)
			tests.observe(x)
		}
		if faults := strings.Join(tests.faults(), "\n"); !strings.Contains(faults, c.fault) {
			t.Errorf("%s: %q is not among the faults found:\n%s", c.name, c.fault, faults)
		}
	}
}

// oneLayer is a stream that replaces the layer in every word that chooses one. The heights of
// wedges and the tail do not see the bits it overwrites.
type oneLayer struct {
	bits  *Bits
	layer uint64
}

func (r oneLayer) Read(p []byte) (int, error) {
	n := len(p) &^ 7
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(p[i:], r.bits.Uint64()&^(layers-1)|r.layer)
	}
	return n, r.bits.Err()
}

// areaBelow is the area of layer i from zero to x, by math.Erfc.
func areaBelow(i int, x float64) float64 {
	area := min(x, edge(i+1)) * (zig.y[i+1] - zig.y[i])
	if i == 0 {
		return area + upper(baseEdge) - upper(max(x, baseEdge))
	}
	return area + wedgeArea(i, x)
}

// wedgeArea is the area under the curve in layer i > 0 from x[i+1] to x.
func wedgeArea(i int, x float64) float64 {
	from := edge(i + 1)
	x = max(from, min(x, edge(i)))
	return upper(from) - upper(x) - zig.y[i]*(x-from)
}

// someLayers are the base, the longest, those about the inflection at x = 1 (a
// wedge is convex before and concave after), and the two topmost.
var someLayers = []int{0, 1, 2, 100, 500, 818, 819, 820, 950, layers - 2, layers - 1}

// TestLayerLaws: draws that are all made in one layer have the law of its area,
// rectangle, wedge or tail, and either sign.
func TestLayerLaws(t *testing.T) {
	effort.NotShort(t, "hundreds of thousands of draws")
	if from, to := edge(820), edge(819); from > 1 || to < 1 {
		t.Errorf("the wedge of layer 819 is from %v to %v; want 1 in it", from, to)
	}
	const draws = 50_000
	for k, i := range someLayers {
		x := normals(t, 1, draws, NewBits(oneLayer{stream(byte(70 + k)), uint64(i)}))
		signs := 0.0
		for n, v := range x {
			signs += math.Copysign(1, v)
			x[n] = math.Abs(v)
		}
		if z := signs / math.Sqrt(draws); math.Abs(z) > normalLimit {
			t.Errorf("layer %d: the signs are off by %.1f standard errors", i, z)
		}
		all := areaBelow(i, math.Inf(1))
		checkContinuous(t, fmt.Sprintf("layer %d", i), x, func(v float64) float64 { return areaBelow(i, v) / all })
	}
}

// TestWedgeLaw: points that are uniform in a layer outside of its inside part, and are found under
// the curve, have the law of the area there. The set of all points, or of the points over the
// curve, has not.
func TestWedgeLaw(t *testing.T) {
	effort.NotShort(t, "hundreds of thousands of draws")
	for k, i := range someLayers[1:] {
		b := stream(byte(90 + k))
		from, to := edge(i+1), edge(i)
		var all, under, over []float64
		for range 25_000 {
			x := from + unit(b.Uint64())*(to-from)
			all = append(all, x)
			if zig.under(uint64(i), x, unit(b.Uint64())) {
				under = append(under, x)
			} else {
				over = append(over, x)
			}
		}
		total := wedgeArea(i, to)
		cdf := func(x float64) float64 { return wedgeArea(i, x) / total }
		checkContinuous(t, fmt.Sprintf("wedge %d", i), under, cdf)
		n, p := float64(len(all)), total/((to-from)*(zig.y[i+1]-zig.y[i]))
		if z := (float64(len(under)) - n*p) / math.Sqrt(n*p*(1-p)); math.Abs(z) > normalLimit {
			t.Errorf("wedge %d: the points under the curve are off by %.1f standard errors", i, z)
		}
		for name, wrong := range map[string][]float64{"all points": all, "points over the curve": over} {
			if d, limit := continuousDistance(wrong, cdf); d <= limit {
				t.Errorf("wedge %d: %s pass, distance %.4f, limit %.4f", i, name, d, limit)
			}
		}
	}
}

// TestTailLaw: against the ratio of two complementary error functions. The
// exponential law that the tail is cut out of must not pass.
func TestTailLaw(t *testing.T) {
	effort.NotShort(t, "hundreds of thousands of draws")
	b := stream(110)
	const draws = 100_000
	cdf := func(x float64) float64 { return 1 - math.Erfc(x/math.Sqrt2)/math.Erfc(baseEdge/math.Sqrt2) }
	checkContinuous(t, "tail", sample(draws, func() float64 { return tail(b) }), cdf)
	exponential := sample(draws, func() float64 { return baseEdge - math.Log(unit(b.Uint64()))/baseEdge })
	if d, limit := continuousDistance(exponential, cdf); d <= limit {
		t.Errorf("an exponential tail passes, distance %.4f, limit %.4f", d, limit)
	}
}
