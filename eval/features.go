package eval

import (
	"slices"

	"github.com/fedsim/fedsim/dataset"
)

// ShareBins is the number of bins of equal width that count the values of a category by their share
// in the head.
const ShareBins = 10

// FeatureShares says how popular the items with features of a category are (DP-CMF paper, Figure
// 2).
type FeatureShares struct {
	Category string `json:"category"`
	// Shares holds the shares of the category's entries (an item's value each) in the buckets from
	// head to tail; they sum to 1.
	Shares []float64 `json:"shares"`
	// Weights holds the shares of the sum of weights in the same buckets.
	Weights []float64 `json:"weights"`
	// Head counts the values by the share of their own entries in the head: bin k counts shares
	// from k/10 to (k+1)/10, the last bin also 1.
	Head [ShareBins]int `json:"head"`
}

// ByPopularity returns, for each category, how popular the items of its entries are. Buckets are by
// exact counts of private ratings: use it for measuring only; no privacy statement covers it.
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
			s.Head[min(ShareBins*head[v]/n, ShareBins-1)]++ // every value belongs to some item
		}
		list = append(list, s)
	}
	return slices.Clip(list)
}
