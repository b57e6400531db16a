package cond

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
)

func noisyLabels(t testing.TB, y []float64, o BinsOptions, seed uint64) *NoisyLabels {
	t.Helper()
	n, err := RandomisedLabels(y, o, simulated.New(seed, "bins"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// squaredError returns E(v - y)² by its definition: over all cells and all answers. The value of an
// answer is the mean of labels given that answer, which no other value beats.
func squaredError(b *Bins, ends []int, up float64) (total float64, values []float64) {
	m := float64(len(ends))
	chance := func(cell, j int) float64 {
		start := 0
		if j > 0 {
			start = ends[j-1]
		}
		if cell >= start && cell < ends[j] {
			return (1 + up) / (up + m)
		}
		return 1 / (up + m)
	}
	for j := range ends {
		var p, first float64
		for c, share := range b.Shares {
			p += share * chance(c, j)
			first += share * chance(c, j) * b.Options.middle(c)
		}
		v := first / p
		values = append(values, v)
		for c, share := range b.Shares {
			d := v - b.Options.middle(c)
			total += share * chance(c, j) * d * d
		}
	}
	return total, values
}

// All ways to cut eight cells into bins are tried, by the definition of the error.
func TestBinsAreOptimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	sizes := make(map[int]bool)
	for n := range 60 {
		const k = 8
		b := &Bins{Options: BinsOptions{Low: -1, High: 3, Cells: k}, Shares: make([]float64, k)}
		counts := make([]int64, k)
		for c := range counts {
			counts[c] = rng.Int64N(50) - 10
		}
		b.Shares = shares(counts)
		up := math.Expm1([]float64{.01, .25, 1, 2, 4, 8}[n%6])
		least := math.Inf(1)
		for cut := range 1 << (k - 1) {
			var ends []int
			for c := range k - 1 {
				if cut>>c&1 == 1 {
					ends = append(ends, c+1)
				}
			}
			e, _ := squaredError(b, append(ends, k), up)
			least = min(least, e)
		}
		b.choose(up)
		sizes[len(b.Ends)] = true
		got, values := squaredError(b, b.Ends, up)
		if got > least+1e-12 {
			t.Fatalf("up %v, shares %v: bins %v have the error %v; the best of all have %v", up, b.Shares, b.Ends, got, least)
		}
		for j, v := range values {
			if math.Abs(v-b.Values[j]) > 1e-12 {
				t.Errorf("bin %d has the value %v; the mean given that answer is %v", j, b.Values[j], v)
			}
		}
	}
	if len(sizes) < 4 {
		t.Errorf("only the numbers of bins %v were best; the cases are too much alike", sizes)
	}
}

// The definition of DP, answer by answer: chances from Keep, (1-keep)/m for any bin and keep more for the true one.
func TestResponseRatio(t *testing.T) {
	for _, m := range []int{1, 2, 5, 40} {
		for _, epsilon := range []float64{.25, 1, 4} {
			o := BinsOptions{Low: 0, High: 1, Cells: m, Epsilon: epsilon}
			_, part := o.split()
			r := responder{uint64(m), ratio{part, epsilonGrid}}
			other := (1 - r.keep()) / float64(m)
			if ratio := (other + r.keep()) / other; ratio > math.Exp(epsilon)*(1+1e-12) || ratio < math.Exp(epsilon)*(1-1e-5) {
				t.Errorf("%d bins: the true bin is %v times as likely as with another label; e^ε is %v", m, ratio, math.Exp(epsilon))
			}
		}
	}
}

// Over 1,000 random labels and replacements the histogram moves by at most 2 in L1, and if it
// moves, by 2.
func TestHistogramSensitivity(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	o := BinsOptions{Low: -1, High: 1, Cells: 16}
	moved := 0
	for n := range 1000 {
		labels := []float64{rng.NormFloat64(), rng.NormFloat64()}
		switch n {
		case 0:
			labels = []float64{math.NaN(), math.Inf(1)}
		case 1:
			labels = []float64{math.Inf(-1), 1e300}
		}
		a, b := make([]int, o.Cells), make([]int, o.Cells)
		a[o.cell(labels[0])]++
		b[o.cell(labels[1])]++
		var l1 int
		for c := range a {
			l1 += max(a[c]-b[c], b[c]-a[c])
		}
		if l1 > 2 {
			t.Fatalf("labels %v: counts move by %d; at most 2 is accounted for", labels, l1)
		}
		if l1 == 2 {
			moved++
		}
	}
	if moved < 800 {
		t.Errorf("%d of 1,000 replacements moved a count; labels this far apart must", moved)
	}
}

// Laplace noise of scale 2/ε1 is in the histogram: 2r/(1-r)², r = e^(-ε1/2), is the closed form of
// its variance. Counts are large so that none is cut at 0. The cells' known total turns shares back
// into counts: the mean of the added noise is far below its deviation.
func TestHistogramNoise(t *testing.T) {
	const k, each = 512, 400
	o := BinsOptions{Low: 0, High: k, Cells: k, Epsilon: 1, Prior: .1}
	var y []float64
	for c := range k {
		for range each {
			y = append(y, float64(c)+.5)
		}
	}
	b, err := NewBins(y, o, simulated.New(3, "bins"))
	if err != nil {
		t.Fatal(err)
	}
	prior, response := o.split()
	r := math.Exp(-float64(prior) / epsilonGrid / 2)
	want := 2 * r / ((1 - r) * (1 - r))
	var square float64
	for _, s := range b.Shares {
		square += (s*k*each - each) * (s*k*each - each) / k
	}
	// The kurtosis of Laplace is 6: the mean square deviates by √(5/512) = 10%, and a deviation
	// five times as large happens once in 1.7 million.
	if math.Abs(square-want) > .5*want {
		t.Errorf("counts deviate by a variance of %v; the law's is %v", square, want)
	}
	if float64(prior+response)/epsilonGrid != b.Epsilon || b.Epsilon > o.Epsilon {
		t.Errorf("ε of %d and %d steps is stated as %v", prior, response, b.Epsilon)
	}
}

// The whole mechanism on two neighbours: with a chance of at most 1e-6 in all, no outcome's count
// in 30,000 runs each is beyond the bound of e^ε. The test can fail: counts contradict ε/2.
func TestBinsAudit(t *testing.T) {
	effort.NotShort(t, "thousands of draws")
	const runs = 30_000
	epsilon := 1.5
	o := BinsOptions{Low: 0, High: 1, Cells: 3, Epsilon: epsilon, Prior: .3}
	counts := make(map[[2]int]*[2]float64)
	for world, y := range [][]float64{{.1, .5}, {.9, .5}} {
		for n := range runs {
			l := noisyLabels(t, y, o, uint64(2*n+world))
			key := [2]int{0, l.Answers[0]}
			for _, end := range l.Bins.Ends {
				key[0] |= 1 << end
			}
			if counts[key] == nil {
				counts[key] = new([2]float64)
			}
			counts[key][world]++
		}
	}
	worst := func(epsilon float64) (most float64) {
		for _, c := range counts {
			for w := range c {
				// a <= e^ε·b for the means; the deviation of a - e^ε·b is about √(a + e^2ε·b).
				e := math.Exp(epsilon)
				most = max(most, (c[w]-e*c[1-w])/math.Sqrt(1+c[w]+e*e*c[1-w]))
			}
		}
		return most
	}
	if z := worst(epsilon); z > 5.5 {
		t.Errorf("an outcome is %.1f deviations above what ε = %v allows", z, epsilon)
	}
	if z := worst(epsilon / 2); z < 5.5 {
		t.Errorf("the audit is too weak: at ε/2 the worst outcome is %.1f deviations above", z)
	}
}

// Labels that are all equal, beyond the range or NaN are answered like any other, and Values stay
// in range.
func TestBinsOfOddLabels(t *testing.T) {
	for name, y := range map[string][]float64{
		"equal": slices.Repeat([]float64{.3}, 50), "none": nil, "beyond": {-1e300, math.Inf(1), math.Inf(-1), 7}, "no number": {math.NaN(), .2},
	} {
		l := noisyLabels(t, y, DefaultBinsOptions(0, 1, 1), 1)
		for _, v := range l.Values() {
			if !(v >= 0 && v <= 1) {
				t.Errorf("%s: a label became %v; the range is 0 to 1", name, v)
			}
		}
		if len(l.Answers) != len(y) || l.Bins.Epsilon != 1 {
			t.Errorf("%s: %d answers for %d labels, and ε is %v", name, len(l.Answers), len(y), l.Bins.Epsilon)
		}
	}
	o := BinsOptions{Low: 0, High: 1, Cells: 4}
	for y, want := range map[float64]int{-1: 0, 0: 0, .24: 0, .25: 1, .99: 3, 1: 3, 9: 3} { // by hand
		if got := o.cell(y); got != want {
			t.Errorf("label %v is in cell %d; by hand %d", y, got, want)
		}
	}
}

func TestBinsRefuse(t *testing.T) {
	for want, change := range map[string]func(*BinsOptions){
		"epsilon is NaN": func(o *BinsOptions) { o.Epsilon = math.NaN() },
		"at most 64":     func(o *BinsOptions) { o.Epsilon = 65 },
		"2^-20":          func(o *BinsOptions) { o.Epsilon = 1e-6 },
	} {
		o := DefaultBinsOptions(0, 1, 1)
		change(&o)
		if _, err := RandomisedLabels([]float64{1}, o, simulated.New(1, "bins")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v", want, err)
		}
	}
	if _, err := RandomisedLabels([]float64{1}, DefaultBinsOptions(0, 1, 1), entropy.Source{}); err == nil {
		t.Error("labels were released without randomness")
	}
}
