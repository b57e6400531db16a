package encoder

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/dataset"
)

// β by counting, over 400 epochs of batches drawn with replacement. Their mean has a deviation below
// a hundredth of a visit for each item. To miss by a hundredth of all visits would take a hundred
// times that. At the ends, B = 1 is a visit an example, and large B a visit an item.
func TestVisits(t *testing.T) {
	counts := []float64{1, 2, 5, 12, 80, 300}
	const all = 400
	rng := rand.New(rand.NewPCG(4, 4))
	var items []int
	for j, n := range counts {
		for range int(n) {
			items = append(items, j)
		}
	}
	for _, batch := range []int{1, 4, 20, 100, 400} {
		seen, epochs := 0., 400
		for range epochs * all / batch {
			in := map[int]bool{}
			for range batch {
				in[items[rng.IntN(all)]] = true
			}
			seen += float64(len(in))
		}
		want := seen / float64(epochs)
		if got := Visits(counts, float64(batch)); math.Abs(got-want) > 0.01*want {
			t.Errorf("batches of %d: %v visits, counted %v", batch, got, want)
		}
	}
	if got := Visits(counts, 1); math.Abs(got-all) > 1e-9 {
		t.Errorf("%v visits in batches of one", got)
	}
	if got := Visits(counts, 1e7) * 1e7 / all; math.Abs(got-6) > 1e-6 {
		t.Errorf("%v items in a batch of all", got)
	}
	if got := Visits(make([]float64, 3), 5); got != 0 {
		t.Errorf("%v visits without examples", got)
	}
}

// The cost of an encoder by hand: three items with 2, 1 and 0 values of one category and 1 each of
// another, embeddings of 4. Linear with ids: (3 + 3 + 3)·4/3; with a dense layer and no ids (3 +
// 3)·4/3 + 8·2.
func TestPassCost(t *testing.T) {
	f := &dataset.ItemFeatures{Items: 3, Categories: []dataset.Category{
		{Name: "a", Values: []string{"x", "y"}, Start: []int32{0, 2, 3, 3}, Value: []int32{0, 1, 1}, Weight: []float64{1, 1, 1}},
		{Name: "b", Values: []string{"z"}, Start: []int32{0, 1, 2, 3}, Value: []int32{0, 0, 0}, Weight: []float64{1, 1, 1}},
	}}
	for _, c := range []struct {
		dense, ids bool
		rank       int
		want       float64
	}{{false, true, 4, 12}, {true, false, 2, 8 + 16}} {
		e, err := New(f, 3, c.rank, Settings{Dim: 4, Dense: c.dense, IDs: c.ids, StartNorm: 1, Optimiser: Adam, Rate: 1, Steps: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.PassCost(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// powerLaw are counts of m items among so many examples, in proportion to quantiles of the density
// x^-α on [1, m], of mean 1 after scaling.
func powerLaw(alpha float64, items int, examples float64) []float64 {
	counts, sum := make([]float64, items), 0.
	for j := range counts {
		// ∫_1^x t^-α dt = share·∫_1^m: for α other than 1
		top := math.Pow(float64(items), 1-alpha) - 1
		counts[j] = math.Pow(1+(float64(j)+0.5)/float64(items)*top, 1/(1-alpha))
		sum += counts[j]
	}
	for j := range counts {
		counts[j] *= examples / sum
	}
	return counts
}

// Figures 5 and 6 of the am-ssp paper: D = 10⁶, m = 10³. The paper says of them:
//   - β/m stays above a hundred for batches up to a few thousands. It is 1 or a little less with all
//     examples in a batch, and D/m with one example in a batch.
//   - With c = d², SSP-c is cheaper by orders of magnitude with batches of 100 to 1,000.
//   - With c = d, SSP-c is dearer unless there are very many epochs.
//
// By hand for c = d² the ratio is m/β·(2 + D/(em)).
func TestCostFigures(t *testing.T) {
	const examples, items, rank = 1e6, 1000, 32
	for _, alpha := range []float64{0.5, 2, 3} {
		counts := powerLaw(alpha, items, examples)
		for _, batch := range []float64{1, 100, 1000, 10_000, 100_000, examples} {
			visits := Visits(counts, batch)
			var ratios [2][3]float64
			for w, pass := range []float64{rank * rank, rank} {
				for k, epochs := range []float64{1, 100, 10_000} {
					ratios[w][k] = Cost{Examples: examples, Items: items, Rank: rank, Pass: pass, Epochs: epochs, Visits: visits}.Ratio()
					if want := items / visits * (2 + examples/(epochs*items)); w == 0 && math.Abs(ratios[w][k]/want-1) > 1e-12 {
						t.Errorf("ratio %v, want %v", ratios[w][k], want)
					}
				}
			}
			t.Logf("α = %v, B = %v: β/m = %.4g; e = 1, 100, 10,000: c = d² %.3g, c = d %.3g", alpha, batch, visits/items, ratios[0], ratios[1])
			switch {
			case batch == 1 && math.Abs(visits/items-examples/items) > 1e-6, batch == 1000 && visits/items < 100, batch == examples && (visits > items*(1+1e-9) || visits < 0.9*items),
				batch <= 1000 && ratios[0][1] > 0.2, batch == examples && ratios[1][2] < 1:
				t.Errorf("α = %v, B = %v: not as the paper has it", alpha, batch)
			}
		}
	}
}
