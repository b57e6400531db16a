package fmf

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
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

// fitted returns settings in which the start of a user's embedding weighs a rating.
func fitted(items, rank int) kernel.Params {
	return kernel.Params{Items: items, Rank: rank, MaxRating: 5, StartMean: 3.5, Spread: 0.01, Seed: 1, Fit: kernel.Fit{Steps: 50, Ridge: 1}}
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
	f, err := train(t.Context(), &central{params: fitted(set.Items, 20), epochs: 15, rate: 0.02}, split.Train, algorithm.Passes{},
		func(algorithm.Epoch) error { passes++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if passes != 15 {
		t.Errorf("%d passes were reported, 15 made", passes)
	}
	mse := func(p model.Predictor) (sum float64) {
		test := split.Test
		for k, x := range test.Value {
			var out [1]float64
			p.Predict(int(test.User[k]), test.Item[k:k+1], out[:])
			d := out[0] - float64(x)
			sum += d * d
		}
		return sum / float64(test.Len())
	}
	if got := mse(f); math.Abs(got-0.727) > 0.02 {
		t.Errorf("test MSE of central SGD-MF is %v, want 0.727", got)
	}
	if got := mse(eval.ItemBias(split.Train, protocol.Workers(2))); math.Abs(got-0.822) > 0.02 {
		t.Errorf("test MSE of the bias model is %v, want 0.822", got)
	}
}

func TestCentralStops(t *testing.T) {
	x := &central{params: fitted(3, 1), epochs: 3, rate: 0.1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := train(ctx, x, small, algorithm.Passes{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled training ended with %v", err)
	}
}

// From the embeddings after any of its passes, training reaches the end of training without a stop.
func TestCentralGoesOn(t *testing.T) {
	x := &central{params: fitted(3, 2), epochs: 4, rate: 0.1}
	left := make(map[int][]byte)
	want, err := train(t.Context(), x, small, algorithm.Passes{}, func(e algorithm.Epoch) error { left[e.Number] = e.Save(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	for done := 1; done < x.epochs; done++ {
		passed := 0
		got, wrong := train(t.Context(), x, small, algorithm.Passes{Done: done, State: left[done]}, func(algorithm.Epoch) error { passed++; return nil })
		if wrong != nil {
			t.Fatal(wrong)
		}
		if !slices.Equal(got.Users.Data(), want.Users.Data()) || !slices.Equal(got.Items.Data(), want.Items.Data()) || passed != x.epochs-done {
			t.Errorf("after %d passes it ends elsewhere, in %d passes", done, passed)
		}
		if bytes.Equal(left[done], left[x.epochs]) {
			t.Errorf("nothing is learned after %d passes", done)
		}
	}
	if _, err = train(t.Context(), x, small, algorithm.Passes{Done: 1, State: left[1][8:]}, nil); err == nil || !strings.Contains(err.Error(), "other users or items") {
		t.Errorf("a state that was cut: %v", err)
	}
}

// train makes a run on ratings.
func train(ctx context.Context, x *central, ratings dataset.Ratings, from algorithm.Passes, passed func(algorithm.Epoch) error) (*model.Factors, error) {
	x.setup = &algorithm.Setup{Ratings: ratings}
	t, err := x.Train(ctx, protocol.Workers(2), from, entropy.Source{}, passed)
	if err != nil {
		return nil, err
	}
	return t.Predictor.(*model.Factors), nil
}
