package training_test

import (
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/opened"
)

// TestFitOfARunThatHeldOut checks that a user is fitted to every rating, however the run of the model held some out.
func TestFitOfARunThatHeldOut(t *testing.T) {
	for _, split := range []string{"", "split.test=0.3 split.validation=0.2", "split.fold=1/5", "split.by=leave-one-out"} {
		e := opened.Experiment(t, "rank=2 "+split)
		f, _, err := e.Fitter(opened.Federation(t, e).Strategy.Model())
		if err != nil {
			t.Fatal(err)
		}
		own := dataset.Ratings{Users: 1, Items: e.Data.Items, User: []int32{0, 0}, Item: []int32{3, 5}, Value: []float32{4, 2}}
		if _, err = f.Fit("a user", own); err != nil {
			t.Errorf("%q: %v", split, err)
		}
	}
}
