package read

import (
	"slices"
	"testing"
)

// Picked items have the features that they had, by the same vocabulary, in the order in which they were picked.
func TestPickFeatures(t *testing.T) {
	set := open(t, "synthetic:small", Options{})
	f, err := Features(set, "genres,year")
	if err != nil {
		t.Fatal(err)
	}
	items := []int32{9, 2, 2, 399}
	p := f.Pick(items)
	if p.Items != 4 || len(p.Categories) != 2 {
		t.Fatalf("%d items, %d categories", p.Items, len(p.Categories))
	}
	for c := range p.Categories {
		got, want := &p.Categories[c], &f.Categories[c]
		if got.Name != want.Name || !slices.Equal(got.Values, want.Values) {
			t.Errorf("category %s has another vocabulary", want.Name)
		}
		for i, j := range items {
			values, weights := got.Features(i)
			of, by := want.Features(int(j))
			if !slices.Equal(values, of) || !slices.Equal(weights, by) {
				t.Errorf("item %d, picked as %d, has %v with %v, want %v with %v", j, i, values, weights, of, by)
			}
		}
	}
	if other := f.Pick([]int32{9, 2, 399, 2}); other.Digest == p.Digest || p.Digest == f.Digest {
		t.Error("other items have the same digest")
	}
}
