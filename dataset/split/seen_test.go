package split_test

import (
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
)

func smallSet(t *testing.T) *dataset.Set {
	t.Helper()
	set, err := read.Open(t.Context(), "synthetic:small", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Every rating is in the test of exactly one fold, folds are about as large as one another, and the
// validation part has its share of the rest.
func TestFoldsAreAPartition(t *testing.T) {
	set := smallSet(t)
	tested := make(map[[2]int32]int)
	for fold := 1; fold <= 5; fold++ {
		parts, err := split.Divide(set, split.Params{Folds: 5, Fold: fold, Validation: 0.1, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		parts.Test.Each(func(u, j int32, _ float32) { tested[[2]int32{u, j}]++ })
		n := float64(set.Len()) // deviations of the binomial laws are 0.004 and 0.003 of n; six of them
		if a, b := float64(parts.Test.Len())/n, float64(parts.Validation.Len())/n; a < 0.176 || a > 0.224 || b < 0.082 || b > 0.118 {
			t.Errorf("fold %d has %v of the ratings, and %v for validation", fold, a, b)
		}
		if sum := parts.Train.Len() + parts.Validation.Len() + parts.Test.Len(); sum != set.Len() {
			t.Errorf("fold %d: %d ratings of %d", fold, sum, set.Len())
		}
	}
	for at, n := range tested {
		if n != 1 {
			t.Fatalf("%v is in %d folds", at, n)
		}
	}
	if len(tested) != set.Len() {
		t.Errorf("%d of %d ratings are in a fold", len(tested), set.Len())
	}
	for _, p := range []split.Params{{Folds: 1, Fold: 1}, {Folds: 3}, {Folds: 3, Fold: 4}, {Folds: 3, Fold: 1, By: split.UserTime}} {
		if p.Validate() == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}

// Leaving one out takes one liked item of every user with two, and another for validation of every user
// with three. The rest is trained on; nothing of too few stars is anywhere.
func TestSeenUsers(t *testing.T) {
	set := smallSet(t)
	p := split.Params{Users: split.UsersSeen, By: split.LeaveOneOut, Validation: 0.1, Seed: 3, Positive: 4, Least: 2}
	parts, err := split.Divide(set, p)
	if err != nil {
		t.Fatal(err)
	}
	h := parts.Held
	liked := make([]int, set.Users)
	set.Each(func(u, _ int32, x float32) {
		if x >= 4 {
			liked[u]++
		}
	})
	train, validation, test := h.Train.ByUser(), h.Validation.Target.ByUser(), h.Test.Target.ByUser()
	for u, n := range liked {
		a, values := train.Row(u)
		b, _ := validation.Row(u)
		c, _ := test.Row(u)
		want := [3]int{max(0, n-2), 1, 1}
		switch n {
		case 0, 1: // left out
			want = [3]int{}
		case 2:
			want = [3]int{1, 0, 1}
		}
		if got := [3]int{len(a), len(b), len(c)}; got != want {
			t.Fatalf("user %d likes %d items, of which %v are for training, validation and test; want %v", u, n, got, want)
		}
		if len(values) > 0 && slices.Min(values) < 4 {
			t.Errorf("user %d trains on %v", u, values)
		}
		if slices.Contains(h.Test.Users, int32(u)) != (want[2] == 1) {
			t.Errorf("user %d, with %d liked items, is tested: %v", u, n, want[2] != 1)
		}
	}
	if !h.Seen || len(h.TrainUsers) != set.Users || h.Test.History.Len() != h.Train.Len() || h.Test.Hidden.Len() != h.Validation.Target.Len() || h.Validation.Hidden.Len() != 0 {
		t.Errorf("%+v", h)
	}
	alone, err := split.Training(set, p)
	if err != nil || !slices.Equal(alone.Item, h.Train.Item) || !slices.Equal(alone.User, h.Train.User) {
		t.Errorf("training alone differs: %v", err)
	}
}
