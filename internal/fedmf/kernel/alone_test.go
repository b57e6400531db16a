package kernel_test

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
)

// small has four users and three items, by hand.
var small = dataset.Ratings{
	Users: 4, Items: 3,
	User:  []int32{0, 0, 1, 1, 1, 2},
	Item:  []int32{0, 1, 0, 1, 2, 2},
	Value: []float32{5, 3, 4, 2, 3, 1},
}

func predict(p model.Predictor, user int, items ...int32) []float64 {
	out := make([]float64, len(items))
	p.Predict(user, items, out)
	return out
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// fitted returns settings in which the start of a user's embedding weighs a rating.
func fitted(items, rank int) kernel.Params {
	p := params(items, rank)
	p.Fit.Ridge = 1
	return p
}

// Training alone moves the rows a user rated towards its ratings, so that less is left for u to
// explain; items it did not rate keep the start.
func TestLocalOnlyKeepsUnratedItemsAtTheStart(t *testing.T) {
	p := fitted(3, 2)
	p.Spread = 0
	l := kernel.LocalOnly(p, small.ByUser(), 10, each{})
	before := kernel.FitUsers(p, small.ByUser(), p.StartItems(), each{})
	// User 2 rated item 2 with 1: by itself it predicts less than 3.5 for others,
	// but more than the fit without local rows, which had to explain all by u.
	alone, without := predict(l, 2, 0)[0], predict(before, 2, 0)[0]
	if !(without < alone && alone < 3.5) {
		t.Errorf("alone %v, without local rows %v; want %v < %v < 3.5", alone, without, without, alone)
	}
	// User 3 has no rating and predicts the start.
	near(t, "user without ratings", predict(l, 3, 1)[0], 3.5, 1e-9)
	// No steps: the same as before cooperation.
	none := kernel.LocalOnly(p, small.ByUser(), 0, each{})
	near(t, "without steps", predict(none, 1, 2)[0], predict(before, 1, 2)[0], 1e-12)
}
