package eval

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
)

// By hand for three items, one negative and the hit rate of the first: p(1|R) is 1, 1/2, 0. So AᵀA
// is [1.25 0.25; 0.25 1.25]/3, c is [1/2 1/2] and Aᵀb is [1/3 0]. With γ = 0.01 the matrix is
// [0.4175 0.0825; 0.0825 0.4175], and its determinant 0.1675.
func TestCorrectionByHand(t *testing.T) {
	got := newCorrector(1, 3).values(func(int) float64 { return 1 }, 1)
	for i, want := range []float64{0.4175 / 3 / 0.1675, -0.0825 / 3 / 0.1675} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("rank %d counts for %v, want %v", i+1, got[i], want)
		}
	}
}

// NumPy solves ((1-γ)AᵀA + γ diag(c)) x = Aᵀb of the paper for 12 items, five negatives, NDCG@3 and γ = 0.01, with binomial laws
// written out by binomial coefficients.
func TestCorrectionByNumPy(t *testing.T) {
	got := newCorrector(5, 12).values(func(rank int) float64 { return 1 / math.Log2(float64(rank)+1) }, 3)
	for i, want := range []float64{1.00645019, 0.134701779, -0.417009589, 0.136168504, 0.019103308, -0.00710748} {
		if math.Abs(got[i]-want) > 1e-8 {
			t.Errorf("rank %d counts for %v, want %v", i+1, got[i], want)
		}
	}
}

// Items of every rank among 500 are ranked among 99 drawn ones, 400 times each. The corrected mean
// must be near the true mean, which the sampled one is far from: the hit rate of the first ten is
// 10/500, and in a sample it is near ten times that.
func TestCorrectionRecoversTheMetric(t *testing.T) {
	effort.NotShort(t, "20 million draws")
	const items, negatives, k, times = 500, 99, 10, 400
	draw := entropy.Public(1, "test")
	counts := newCorrector(negatives, items).values(func(int) float64 { return 1 }, k)
	var corrected, sampled float64
	for rank := 1; rank <= items; rank++ {
		for range times {
			r := 0
			for range negatives {
				if draw.IntN(items-1) < rank-1 {
					r++
				}
			}
			corrected += counts[r]
			if r < k {
				sampled++
			}
		}
	}
	corrected, sampled = corrected/(items*times), sampled/(items*times)
	if math.Abs(corrected-0.02) > 0.002 || sampled < 0.09 {
		t.Errorf("corrected %v, want 0.02; sampled %v, want near 0.1", corrected, sampled)
	}
}

// byItem predicts the item's index for every user.
type byItem struct{}

func (byItem) Predict(_ int, items []int32, out []float64) {
	for i, j := range items {
		out[i] = float64(j)
	}
}

// One user rated items 0 to 4 in training, and 50 in the test. 94 items are left, and 49 of them have
// higher predictions. A sample of one item is above the target with probability 49/94, so hit@1 is
// 45/94 over many users; the draws of users differ. All samples contain only unrated items: with
// item 99 alone unrated, the target is never first.
func TestSampledNegatives(t *testing.T) {
	const users = 4000
	r := dataset.Ratings{Users: users, Items: 100}
	test := r
	for u := range int32(users) {
		for j := range int32(5) {
			r.User, r.Item, r.Value = append(r.User, u), append(r.Item, j), append(r.Value, 3)
		}
		test.User, test.Item, test.Value = append(test.User, u), append(test.Item, 50), append(test.Value, 5)
	}
	q := SampledParams{ListParams: ListParams{Cutoffs: []int{1}, Relevant: 4}, Negatives: 1, Seed: 3}
	measure := func(train dataset.Ratings, workers int) float64 {
		all := NewTest(&split.Parts{Train: train, Test: test}, 1, 5, 5)
		got := all.Sampled(byItem{}, q, protocol.Workers(workers))
		if got == nil || got.Users != users || got.Negatives != 1 || got.Values["sampled_hit@1"] != got.Values["sampled_ndcg@1"] {
			t.Fatalf("%+v", got)
		}
		return got.Values["sampled_hit@1"]
	}
	const want = 45. / 94
	if got := measure(r, 1); math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/users) || got != measure(r, 3) {
		t.Errorf("hit@1 is %v with one worker and %v with three, want %v within five deviations", got, measure(r, 3), want)
	}
	full := dataset.Ratings{Users: users, Items: 100}
	for u := range int32(users) {
		for j := range int32(99) {
			if j != 50 {
				full.User, full.Item, full.Value = append(full.User, u), append(full.Item, j), append(full.Value, 3)
			}
		}
	}
	if got := measure(full, 2); got != 0 {
		t.Errorf("hit@1 is %v where every sample is item 99, want 0", got)
	}
}
