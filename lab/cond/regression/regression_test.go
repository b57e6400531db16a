package regression

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
)

// A label that is no number, or beyond the scale, is an end of it, and two sets that differ in a feature have other digests.
func TestNewSetTakesLabelsBeyondTheScale(t *testing.T) {
	r := &Data{Rows: 3, Cols: 1, X: []float64{1, 2, 3}, Y: []float64{math.NaN(), 7, -7}}
	set, err := NewSet("r", r, -1, 1)
	if err != nil || !slices.Equal(set.Value, []float32{-1, 1, -1}) || set.Items != 1 || set.Profile.Columns[0] != "x1" {
		t.Fatalf("%+v, %v", set, err)
	}
	other := &Data{Rows: 3, Cols: 1, X: []float64{1, 2, 4}, Y: r.Y}
	if o, err := NewSet("r", other, -1, 1); err != nil || o.Digest == set.Digest {
		t.Errorf("another feature, and the same digest (%v)", err)
	}
	if _, err := NewSet("r", r, 1, 1); !errors.Is(err, dataset.ErrScale) {
		t.Error(err)
	}
	bad := &Data{Rows: 1, Cols: 1, X: []float64{math.Inf(1)}, Y: []float64{0}}
	if _, err := NewSet("r", bad, 0, 1); err == nil || !strings.Contains(err.Error(), "feature 1 of row 1") {
		t.Error(err)
	}
}
