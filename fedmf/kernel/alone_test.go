package kernel_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
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

// Central reaches what the literature reports for SGD matrix factorization with
// these constraints on MovieLens 1M: MSE about 0.727, bias model 0.822. The
// synthetic set is fitted to those figures, so a wrong step or projection shows.
func TestCentralReachesThePublishedError(t *testing.T) {
	effort.LongOnly(t, "15 passes over a million ratings take seconds")
	set, err := read.Open(context.Background(), "synthetic:ml-1m", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	split, err := split.Divide(set, split.Params{Test: 0.1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	passes := 0
	f, err := kernel.Central(context.Background(), split.Train, kernel.CentralParams{
		Params: fitted(set.Items, 20), Epochs: 15, LearningRate: 0.02,
		Passed: func(int, *model.Factors) error { passes++; return nil },
	}, protocol.Workers(2))
	if err != nil {
		t.Fatal(err)
	}
	if passes != 15 {
		t.Errorf("%d passes were reported, 15 made", passes)
	}
	mse := func(p model.Predictor) (sum float64) {
		test := split.Test
		for k, x := range test.Value {
			d := predict(p, int(test.User[k]), test.Item[k])[0] - float64(x)
			sum += d * d
		}
		return sum / float64(test.Len())
	}
	near(t, "test MSE of central SGD-MF", mse(f), 0.727, 0.02)
	near(t, "test MSE of the bias model", mse(eval.ItemBias(split.Train, protocol.Workers(2))), 0.822, 0.02)
}

func TestCentralStops(t *testing.T) {
	p := kernel.CentralParams{Params: fitted(3, 1), Epochs: 3, LearningRate: 0.1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := kernel.Central(ctx, small, p, each{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled training ended with %v", err)
	}
	p.Epochs, p.LearningRate = 0, 0
	if _, err := kernel.Central(context.Background(), small, p, each{}); err == nil {
		t.Error("no epochs and no learning rate were accepted")
	}
}

// From the embeddings after any of its passes, training reaches the end of training without a stop.
func TestCentralGoesOn(t *testing.T) {
	p := kernel.CentralParams{Params: fitted(3, 2), Epochs: 4, LearningRate: 0.1}
	left := make(map[int]*model.Factors)
	p.Passed = func(epoch int, f *model.Factors) error {
		left[epoch] = &model.Factors{Users: f.Users.Clone(), Items: f.Items.Clone()}
		return nil
	}
	want, err := kernel.Central(context.Background(), small, p, each{})
	if err != nil {
		t.Fatal(err)
	}
	for done := 1; done < p.Epochs; done++ {
		again, passed := p, 0
		again.From, again.Done = left[done], done
		again.Passed = func(int, *model.Factors) error { passed++; return nil }
		got, err := kernel.Central(context.Background(), small, again, each{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Users.Data(), want.Users.Data()) || !slices.Equal(got.Items.Data(), want.Items.Data()) || passed != p.Epochs-done {
			t.Errorf("after %d passes it ends elsewhere, in %d passes", done, passed)
		}
		if slices.Equal(left[done].Items.Data(), want.Items.Data()) {
			t.Errorf("nothing is learned after %d passes", done)
		}
	}
	for _, done := range []int{-1, 0, 4} { // none, or all: no pass is left
		bad := p
		bad.From, bad.Done = want, done
		if _, err := kernel.Central(context.Background(), small, bad, each{}); err == nil || !strings.Contains(err.Error(), "passes are done") {
			t.Errorf("%d of 4 passes: %v", done, err)
		}
	}
	p.Done = 2
	if _, err := kernel.Central(context.Background(), small, p, each{}); err == nil {
		t.Error("passes without what they left were accepted")
	}
}
