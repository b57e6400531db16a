package fedssp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/user"
)

// A server's counts move weight between a user's ratings and never add any: Σw² is 1.
func TestWeightsSquareToOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e300, 1e-300, 1, 7}
	for range 2000 {
		w, counts := make([]float64, 1+rng.IntN(300)), make([]float64, 300)
		for k := range counts {
			if counts[k] = 1000 * rng.ExpFloat64(); rng.IntN(3) == 0 {
				counts[k] = odd[rng.IntN(len(odd))]
			}
		}
		exponent := 2 * rng.Float64()
		user.Weigh(w, counts[:len(w)], exponent)
		var sum float64
		for _, x := range w {
			if !(x > 0) {
				t.Fatalf("a weight of %v", x)
			}
			sum += x * x
		}
		if math.Abs(sum-1) > 1e-13 {
			t.Fatalf("Σw² is 1%+g", sum-1)
		}
	}
	// By hand: counts of 1 and 16 with exponent 1/4 are weights in the ratio 2 : 1.
	w := make([]float64, 2)
	user.Weigh(w, []float64{1, 16}, 0.25)
	near(t, "weights", w, []float64{2 / math.Sqrt(5), 1 / math.Sqrt(5)}, 1e-15)
	user.Weigh(w, nil, 0.25)
	near(t, "weights without counts", w, []float64{math.Sqrt(0.5), math.Sqrt(0.5)}, 1e-15)
}

// Each of n ratings is equally likely to be in a sample. In 20,000 samples of 3 of 10 the count of
// each rating has mean 6,000. Σ(count-mean)²/(mean·(1-3/9...)) is near chi-square with 9 degrees of
// freedom, which is above 33.7 with probability 1e-4. Sampling without replacement gives the counts
// their covariance, hence the factor 10/(10-1) · 1/(1-0.3).
func TestSampleIsUniform(t *testing.T) {
	const n, size, draws = 10, 3, 20000
	for _, tail := range []bool{false, true} {
		counts := make([]float64, n)
		random := simulated.New(9, "test").Stream("sample", 1)
		for range draws {
			var places []int
			var err error
			if tail { // all counts are the same: ties are in random order
				places, err = user.SampleTail(n, size, make([]float64, n), random)
			} else {
				places, err = user.Sample(n, size, random)
			}
			if err != nil || len(places) != size {
				t.Fatal(places, err)
			}
			for i, k := range places {
				if i > 0 && places[i-1] >= k {
					t.Fatalf("places %v do not ascend", places)
				}
				counts[k]++
			}
		}
		const q = float64(size) / n
		var chi2 float64
		for _, c := range counts {
			chi2 += (c - draws*q) * (c - draws*q) / (draws * q * (1 - q)) * (n - 1) / n
		}
		if chi2 > 33.7 {
			t.Errorf("tail %v: chi-square %.1f of %v", tail, chi2, counts)
		}
	}
}

// The tail follows the counts, however odd they are; fewer ratings than the cap are all taken.
func TestSampleTail(t *testing.T) {
	random := simulated.New(9, "test").Stream("sample", 1)
	for _, c := range []struct {
		counts []float64
		size   int
		want   []int
	}{
		{[]float64{9, 3, 7, 2, 8}, 2, []int{1, 3}},
		{[]float64{math.Inf(1), 3, 7, math.NaN(), 8}, 3, []int{1, 2, 3}},
		{[]float64{5, 4}, 3, []int{0, 1}},
		{[]float64{5}, 1, []int{0}},
	} {
		got, err := user.SampleTail(len(c.counts), c.size, c.counts, random)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("of %v: %v, %v; want %v", c.counts, got, err, c.want)
		}
	}
}

// One scale for all, whatever the server says it and the counts are, leaves Σw² at most 1 of any
// user.
func TestGlobalWeightsAreBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 2))
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e300, 1e-300, 1, 7}
	reached := 0
	for range 2000 {
		w, counts := make([]float64, 1+rng.IntN(300)), make([]float64, 300)
		for k := range counts {
			if counts[k] = 1000 * rng.ExpFloat64(); rng.IntN(3) == 0 {
				counts[k] = odd[rng.IntN(len(odd))]
			}
		}
		scale := user.GlobalScale(counts, 500, 2*rng.Float64(), 4*rng.Float64())
		if rng.IntN(4) == 0 {
			scale = odd[rng.IntN(len(odd))]
		}
		user.WeighGlobally(w, counts[:len(w)], 2*rng.Float64(), scale)
		var sum float64
		for _, x := range w {
			if !(x >= 0) {
				t.Fatalf("a weight of %v", x)
			}
			sum += x * x
		}
		if sum > 1+1e-13 {
			t.Fatalf("Σw² is 1%+g", sum-1)
		}
		if sum > 1-1e-9 {
			reached++
		}
	}
	if reached < 200 {
		t.Errorf("the bound was reached %d times in 2000: it is not tight", reached)
	}
}

// Equation (11) of the multi-task paper by hand. Two items have counts of 4 and 16, of 10 users, and
// μ = 1/2. Then ω_j = n_j^-1/2 / √(2/10) is 1.118 and 0.559. A user of the second item alone keeps
// its weight. A user of both has Σω² = 1.5625 and is scaled back by 1.25. With μ = 0 all weights are
// √(10/20), and on average over users Σω² is 1.
func TestGlobalWeightsByHand(t *testing.T) {
	counts := []float64{4, 16}
	scale := user.GlobalScale(counts, 10, 0.5, 1)
	one, both := make([]float64, 1), make([]float64, 2)
	user.WeighGlobally(one, counts[1:], 0.5, scale)
	user.WeighGlobally(both, counts, 0.5, scale)
	near(t, "weights of one", one, []float64{math.Sqrt(5) / 4}, 1e-15)
	near(t, "weights of both", both, []float64{math.Sqrt(5) / 2 / 1.25, math.Sqrt(5) / 4 / 1.25}, 1e-15)
	near(t, "equal weights", []float64{user.GlobalScale(counts, 10, 0, 1), user.GlobalScale(counts, 10, 0, 4)}, []float64{math.Sqrt(0.5), math.Sqrt(0.125)}, 1e-15)
}
