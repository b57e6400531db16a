package synthetic

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// TestExpLog compares with the standard library, which rounds within one unit in the last place.
func TestExpLog(t *testing.T) {
	r := newRandom(1, 1)
	for range 10_000 {
		x := 100*r.uniform() - 50
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 2e-14*want { // the error of x/ln2 grows with x
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
		y := math.Exp(x)
		if got, want := log(y), math.Log(y); math.Abs(got-want) > 1e-14*math.Max(1, math.Abs(want)) {
			t.Fatalf("log(%v) = %v, want %v", y, got, want)
		}
	}
	if exp(0) != 1 || log(1) != 0 {
		t.Errorf("exp(0) = %v, log(1) = %v, want 1 and 0", exp(0), log(1))
	}
}

// TestNormal compares the sum of twelve uniform numbers with the normal law.
// The largest distance of the two distribution functions is 0.0023 (at 0.74,
// from the Edgeworth term x^3-3x of kurtosis -0.1); the sample of 200,000
// adds more than 0.0044 once in 10^3 (Kolmogorov-Smirnov: 1.95/sqrt(n)).
func TestNormal(t *testing.T) {
	x := newRandom(2, 1).normals(200_000)
	slices.Sort(x)
	worst := 0.0
	for k, v := range x {
		worst = math.Max(worst, math.Abs(distuv.UnitNormal.CDF(v)-(float64(k)+0.5)/float64(len(x))))
	}
	if worst > 0.0023+0.0044 {
		t.Errorf("distance from the normal law is %.4f, want at most 0.0067", worst)
	}
	// Five standard errors of mean and variance (kurtosis 2.9): once in 10^6 each.
	mean, variance := stat.MeanVariance(x, nil)
	if math.Abs(mean) > 5/math.Sqrt(2e5) || math.Abs(variance-1) > 5*math.Sqrt(1.9/2e5) {
		t.Errorf("mean %.4f, variance %.4f, want 0 and 1", mean, variance)
	}
}

// TestAlias compares draws with the weights by a chi-square test at level 10^-4.
func TestAlias(t *testing.T) {
	weights := []float64{5, 0.01, 1, 1, 3, 0.5, 12}
	const n = 200_000
	a, r := newAlias(weights), newRandom(3, 1)
	counts, expected := make([]float64, len(weights)), make([]float64, len(weights))
	for range n {
		counts[a.draw(r)]++
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	for i, w := range weights {
		expected[i] = n * w / sum
	}
	limit := distuv.ChiSquared{K: float64(len(weights) - 1)}.Quantile(1 - 1e-4)
	if got := stat.ChiSquare(counts, expected); got > limit {
		t.Errorf("chi-square is %.1f, want at most %.1f: drew %v, want %v", got, limit, counts, expected)
	}
}

// TestShuffle: each of the 24 orders of four comes about equally often, by a
// chi-square test at level 10^-4.
func TestShuffle(t *testing.T) {
	r := newRandom(4, 1)
	const n = 48_000
	seen := make(map[[4]int]float64)
	for range n {
		order := [4]int{0, 1, 2, 3}
		shuffle(r, order[:])
		seen[order]++
	}
	chi := 0.0
	for _, count := range seen {
		chi += (count - n/24) * (count - n/24) / (n / 24)
	}
	limit := distuv.ChiSquared{K: 23}.Quantile(1 - 1e-4)
	if len(seen) != 24 || chi > limit {
		t.Errorf("%d orders, chi-square %.1f, want 24 and at most %.1f", len(seen), chi, limit)
	}
}
