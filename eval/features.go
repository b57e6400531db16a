package eval

import (
	"slices"

	"github.com/fedsim/fedsim/dataset"
)

// ShareBins is how many bins of equal width the values of a category are counted in, by their share in the head.
const ShareBins = 10

// FeatureShares tells on how popular items the features of a category are (DP-CMF paper, Figure 2).
type FeatureShares struct {
	Category string `json:"category"`
	// Shares are those of the category's entries, an item's value each, in the buckets from head to
	// tail; they sum to 1.
	Shares []float64 `json:"shares"`
	// Weights are the same of the sum of weights.
	Weights []float64 `json:"weights"`
	// Head counts the values by how much of their own entries is in the head: bin k those with k/10 to (k+1)/10, the last with 1 too.
	Head [ShareBins]int `json:"head"`
}

// ByPopularity tells of each category on how popular items its entries are. Buckets are by exact counts
// of private ratings: it is for measuring only, and not covered by any privacy statement.
func ByPopularity(f *dataset.ItemFeatures, b Buckets) []FeatureShares {
	list := make([]FeatureShares, 0, len(f.Categories))
	for i := range f.Categories {
		c := &f.Categories[i]
		s := FeatureShares{Category: c.Name, Shares: make([]float64, len(b.sizes)), Weights: make([]float64, len(b.sizes))}
		head, all := make([]int, len(c.Values)), make([]int, len(c.Values))
		weight := 0.
		for j := range f.Items {
			values, weights := c.Features(j)
			for k, v := range values {
				all[v]++
				if b.of[j] == 0 {
					head[v]++
				}
				s.Shares[b.of[j]]++
				s.Weights[b.of[j]] += weights[k]
				weight += weights[k]
			}
		}
		for k := range s.Shares {
			s.Shares[k] /= float64(len(c.Value))
			s.Weights[k] /= weight
		}
		for v, n := range all {
			s.Head[min(ShareBins*head[v]/n, ShareBins-1)]++ // every value is of some item
		}
		list = append(list, s)
	}
	return slices.Clip(list)
}
