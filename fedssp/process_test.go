package fedssp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
)

// A client's fit with weights of popularity, genres and eras predicts what a Gaussian process on items predicts, with the
// features' covariance. The oracle is testdata/process.py. It shares no code, solves for ratings in place of weights, and has
// definitions of eras of its own.
func TestFitIsAGaussianProcess(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "process.json"))
	if err != nil {
		t.Fatal(err)
	}
	var items []struct {
		Year                                 int
		Genres                               []string
		Bias, Popularity, Rating, Prediction float64
		Embedding                            []float64
	}
	if err = json.Unmarshal(b, &items); err != nil {
		t.Fatal(err)
	}
	p := kinds(len(items), 2)["popularity of users"]
	set := &dataset.Set{Name: "films", Ratings: dataset.NewRatings(1, len(items), 0)}
	m, r := newStrategy(t, p, 1, 0).Current(), model.Ratings{}
	m.Mean, m.Bias, m.Popularity = 3.25, nil, nil
	var want []float64
	for j, x := range items {
		set.ItemIDs, set.Years, set.Genres = append(set.ItemIDs, string(rune('a'+j))), append(set.Years, x.Year), append(set.Genres, x.Genres)
		m.Bias, m.Popularity = append(m.Bias, x.Bias), append(m.Popularity, x.Popularity)
		copy(m.Items[2*j:], x.Embedding)
		if x.Rating > 0 {
			r.Items, r.Values = append(r.Items, int32(j)), append(r.Values, float32(x.Rating))
		}
		want = append(want, x.Prediction)
	}
	features, err := read.Features(set, "genres,era,genre-era")
	if err != nil {
		t.Fatal(err)
	}
	p.Features, p.UserFeatures = features, kernel.NewUserFeatures(features, 0.35)
	p.UserRidge, p.UserBiasRidge, m.Weighed = 2, 5, p.UserFeatures
	opened := openedModel(t, &p, m)
	u, bias := user.Fit(opened, r)
	got := make([]float64, len(items))
	for j := range items {
		got[j] = opened.Predict(u, bias, j)
	}
	near(t, "predictions", got, want, 1e-8)
}
