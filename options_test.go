package fedsim_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results/recommend"
)

// A run set by fields and a run set by keys are equal to the bit.
func TestFieldsAreSettings(t *testing.T) {
	typed, err := fedsim.Run(t.Context(), fedsim.Options{
		Algorithm: "private-item-bias", Epsilon: 3, Delta: 1e-6, Seed: 7, RatingMin: 0.5, RatingMax: 5,
		Settings: map[string]string{"data": "synthetic:small", "baselines": "quick"},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := fedsim.Run(t.Context(), fedsim.Options{Settings: map[string]string{
		"algorithm": "private-item-bias", "epsilon": "3", "delta": "1e-6", "seed": "7", "rating-min": "0.5", "rating-max": "5",
		"data": "synthetic:small", "baselines": "quick",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if typed.RMSE() != text.RMSE() || typed.Privacy.String() != text.Privacy.String() {
		t.Errorf("by fields %v, %v; by keys %v, %v", typed.RMSE(), typed.Privacy, text.RMSE(), text.Privacy)
	}
}

// A run that holds nothing out trains on all ratings, as a deployment does. Its folder has no error, and can be read and asked.
func TestARunOfAllRatings(t *testing.T) {
	for _, feedback := range []string{"explicit", "implicit"} {
		r, err := fedsim.Run(t.Context(), fedsim.Options{Keep: true, Settings: map[string]string{
			"algorithm": "ssp-c", "feedback": feedback, "epsilon": "20", "rank": "2", "rounds": "1", "data": "synthetic:small-80", "split.test": "0", "out": t.TempDir(),
		}})
		if err != nil {
			t.Fatalf("%s: %v", feedback, err)
		}
		if !math.IsNaN(r.RMSE()) || r.Baselines != nil {
			t.Errorf("%s: RMSE %v, baselines %v", feedback, r.RMSE(), r.Baselines)
		}
		text, err := os.ReadFile(filepath.Join(r.Folder, "summary.json"))
		if err != nil || strings.Contains(string(text), "rmse") || strings.Contains(string(text), "recall") {
			t.Errorf("%s: %v\n%s", feedback, err, text)
		}
	}
}

func TestOptionsRefuses(t *testing.T) {
	own := level(t, "level", 0)
	for want, o := range map[string]fedsim.Options{
		"epsilon: it is a field":                       {Epsilon: 3, Settings: map[string]string{"epsilon": "3"}},
		"algorithm: it is a field":                     {Own: own, Settings: map[string]string{"algorithm": "ssp-c"}},
		"rating-max: it is a field":                    {RatingMin: 1, RatingMax: 5, Settings: map[string]string{"rating-max": "5"}},
		"Options.Algorithm and Options.Own":            {Algorithm: "ssp-c", Own: own},
		"register \"level\" to resume its runs":        {Own: own, Keep: true, Resume: true},
		"another algorithm is registered as \"ssp-c\"": {Own: level(t, "ssp-c", 0)},
		"epsilon: -1":                                  {Epsilon: -1},
		"algorithm: \"level\" is not one of":           {Algorithm: "level"},
		"delta: 2":                                     {Delta: 2},
	} {
		if _, err := fedsim.Plan(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q in it", o, err, want)
		}
	}
}

// level is an algorithm whose model is one number, the mean of all ratings, and that adds to each prediction.
func level(t *testing.T, name string, add float64) algorithm.Algorithm {
	t.Helper()
	release := protocol.Release{Name: "level", Len: 2, L2: math.Sqrt2, LInf: 1, MaxNonZero: 2}
	a, err := peruser.New(peruser.Algorithm{
		Name: name, Help: "one mean of all ratings", Rounds: 1, Rank: 1,
		Release: func(*algorithm.Setup) protocol.Release { return release },
		Rows:    func(*algorithm.Setup) []string { return []string{"all"} },
		Start:   func(*algorithm.Setup) *model.Matrix { return model.NewMatrix(1, 1) },
		Contribute: func(s *algorithm.Setup, _ *model.Matrix, r model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
			v := protocol.Vector{Value: make([]float64, 2)}
			for _, x := range r.Values {
				v.Value[0] += float64(x) / float64(len(r.Values)) / s.Data.Max
				v.Value[1] = 1
			}
			return peruser.Clip(v, release), nil
		},
		Absorb: func(s *algorithm.Setup, m *model.Matrix, sum []float64, _ int, _ uint64) {
			m.Row(0)[0] = sum[0] / sum[1] * s.Data.Max
		},
		Predict: func(_ *algorithm.Setup, m *model.Matrix, _ model.Ratings, out []float64) {
			for j := range out {
				out[j] = m.Row(0)[0] + add
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Half of the users rate everything one star, the others five stars, so that the mean without noise is 3.
func TestVariantsSideBySide(t *testing.T) {
	var ratings []fedsim.Rating
	for u := range 30 {
		for i := range 20 {
			ratings = append(ratings, fedsim.Rating{User: fmt.Sprint("low ", u), Item: fmt.Sprint(i), Value: 1}, fedsim.Rating{User: fmt.Sprint("high ", u), Item: fmt.Sprint(i), Value: 5})
		}
	}
	for add, want := range map[float64]float64{0: 3, 1: 4} {
		r, err := fedsim.Run(t.Context(), fedsim.Options{Own: level(t, "level", add), Epsilon: math.Inf(1), Ratings: ratings, RatingMin: 1, RatingMax: 5,
			Settings: map[string]string{"baselines": "quick", "dropout": "0"}})
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Recommend("low 0", 100)
		if err != nil || len(list) == 0 || math.Abs(list[0].Predicted-want) > 1e-3 { // some of its ratings are the test
			t.Errorf("adding %v: %v, %v; want items of %v stars", add, predicted(list), err, want)
		}
		if r.Algorithm != "level" {
			t.Errorf("it ran %s", r.Algorithm)
		}
	}
	if slices.Contains(fedsim.Algorithms(), "level") {
		t.Error("an algorithm that ran by its value is registered")
	}
}

// Recommendations in memory equal the recommendations from the run's folder.
func TestRecommendAsTheFolderDoes(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"ssp-c", "lfl-sgdmf"} {
		r, err := fedsim.Run(t.Context(), fedsim.Options{Algorithm: name, Keep: true, Settings: map[string]string{
			"data": "synthetic:small-80", "baselines": "quick", "rounds": "2", "out": out}})
		if err != nil {
			t.Fatal(err)
		}
		folder, err := recommend.Open(t.Context(), r.Folder, recommend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range r.Data.UserIDs[:3] {
			want, failed := folder.Recommend(user, 5)
			if failed != nil {
				t.Fatal(failed)
			}
			got, failed := r.Recommend(user, 5)
			if failed != nil || len(got) != 5 {
				t.Fatal(got, failed)
			}
			for k := range got {
				if got[k].ID != want[k].ID || math.Abs(got[k].Predicted-want[k].Predicted) > 1e-6 {
					t.Errorf("%s, user %s: %v, and its folder recommends %v", name, user, got[k], want[k])
				}
			}
		}
		if _, err = r.Recommend("no such user", 5); err == nil {
			t.Error("a user who is not there gets recommendations")
		}
	}
}

func predicted(list []fedsim.Recommendation) (stars []float64) {
	for _, r := range list {
		stars = append(stars, r.Predicted)
	}
	return stars
}
