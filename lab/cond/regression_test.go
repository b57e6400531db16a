package cond_test

import (
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/lab/cond/regression"
)

// A label that is no number, or beyond the scale, is an end of it, and two sets that differ in a feature have other digests.
func TestNewSetTakesLabelsBeyondTheScale(t *testing.T) {
	r := &regression.Data{Rows: 3, Cols: 1, X: []float64{1, 2, 3}, Y: []float64{math.NaN(), 7, -7}}
	set := regression.NewSet("r", r, -1, 1)
	if !slices.Equal(set.Value, []float32{-1, 1, -1}) || set.Items != 1 || set.Profile.Columns[0] != "x1" {
		t.Fatalf("%+v", set)
	}
	other := &regression.Data{Rows: 3, Cols: 1, X: []float64{1, 2, 4}, Y: r.Y}
	if o := regression.NewSet("r", other, -1, 1); o.Digest == set.Digest {
		t.Error("another feature, and the same digest")
	}
}
