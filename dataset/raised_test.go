package dataset_test

import (
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dataset/read"
)

// TestRaised: a scale from -10 to 10 becomes one from 0 to 20, and the set that was read remains.
func TestRaised(t *testing.T) {
	lo, hi := -10., 10.
	set, err := read.FromRatings("jokes", []read.Rating{{User: "a", Item: "x", Value: -9.5}, {User: "a", Item: "y", Value: 10}, {User: "b", Item: "x", Value: 0}}, read.Options{Min: &lo, Max: &hi})
	if err != nil {
		t.Fatal(err)
	}
	got := set.Raised()
	if got.Min != 0 || got.Max != 20 || got.Shift != 10 || got.Digest != set.Digest || !slices.Equal(got.Value, []float32{0.5, 20, 10}) {
		t.Errorf("%v to %v, raised by %v: %v; want 0.5, 20 and 10 of 0 to 20, raised by 10", got.Min, got.Max, got.Shift, got.Value)
	}
	if set.Min != -10 || set.Shift != 0 || !slices.Equal(set.Value, []float32{-9.5, 10, 0}) {
		t.Errorf("the set itself is %v of %v to %v", set.Value, set.Min, set.Max)
	}
	if open(t, "read/testdata/good/one.csv").Raised().Shift != 0 {
		t.Error("a scale from 0 was raised")
	}
}
