package eval

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
)

// TestByPopularity counts by hand. Items 0 to 3 have 3, 0, 2 and 1 ratings, so that with two
// buckets 0 and 2 are the head. Of "a", the value x is on items 0, 1 and 2 and y on item 3: two of
// four entries are in the head. x has two thirds of its own entries there, y none. Weights are 1,
// 2, 3 and 4: 4 of 10 in the head.
func TestByPopularity(t *testing.T) {
	train := dataset.Ratings{Users: 3, Items: 4, User: []int32{0, 0, 1, 1, 2, 2}, Item: []int32{0, 2, 0, 2, 0, 3}, Value: make([]float32, 6)}
	f := &dataset.ItemFeatures{Items: 4, Categories: []dataset.Category{{
		Name: "a", Values: []string{"x", "y"}, Start: []int32{0, 1, 2, 3, 4}, Value: []int32{0, 0, 0, 1}, Weight: []float64{1, 2, 3, 4},
	}}}
	want := []FeatureShares{{Category: "a", Shares: []float64{0.5, 0.5}, Weights: []float64{0.4, 0.6}, Head: [ShareBins]int{0: 1, 6: 1}}}
	if diff := cmp.Diff(want, ByPopularity(f, NewBuckets(train, 2))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestByPopularityHead: a value with all its items in the head is in the last bin.
func TestByPopularityHead(t *testing.T) {
	train := dataset.Ratings{Users: 1, Items: 2, User: []int32{0}, Item: []int32{1}, Value: []float32{1}}
	f := &dataset.ItemFeatures{Items: 2, Categories: []dataset.Category{{
		Name: "a", Values: []string{"x"}, Start: []int32{0, 0, 1}, Value: []int32{0}, Weight: []float64{1},
	}}}
	if got := ByPopularity(f, NewBuckets(train, 2))[0]; got.Head != [ShareBins]int{ShareBins - 1: 1} || got.Shares[0] != 1 {
		t.Errorf("got %+v", got)
	}
}
