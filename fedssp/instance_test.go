package fedssp

import (
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// The model of a deployment comes with what predictions are made of.
func TestSharedModelOfStatistics(t *testing.T) {
	e := opened.Joined(t, opened.Experiment(t, "algorithm=ssp-c rank=2"))
	m := &kernel.Model{Mean: 3.25, Bias: make([]float64, 400), Items: make([]float64, 800)}
	m.Bias[7], m.Items[15] = 0.5, -1.5
	shared, err := e.Instance().Shared(m.Encode())
	if err != nil || len(shared) != 3 {
		t.Fatalf("%d parts, %v", len(shared), err)
	}
	if mean, items, bias := shared[0], shared[1], shared[2]; mean.Name != "mean" || mean.Data()[0] != 3.25 || len(mean.IDs) != 1 ||
		items.Name != "item_embeddings" || items.Row(7)[1] != -1.5 || bias.Name != "item_bias" || bias.Row(7)[0] != 0.5 || !slices.Equal(bias.IDs, e.Data.ItemIDs) {
		t.Errorf("the model's parts are %s %v, %s %v, %s %v", mean.Name, mean.Data(), items.Name, items.Row(7), bias.Name, bias.Row(7))
	}
	if _, err := e.Instance().Shared(m.Encode()[1:]); err == nil {
		t.Error("a damaged model was read")
	}
}

// ranked is a model that recommends the same items to all users.
type ranked []float64

func (r ranked) Predict(int, []int32, []float64) {}

func (r ranked) Score(_ int, _ []int32, _ []float32, out []float64) { copy(out, r) }

// unranked predicts, and ranks nothing.
type unranked struct{}

func (unranked) Predict(int, []int32, []float64) {}

// With implicit feedback users are held out. A held-out user has no ratings in training, and
// quality is measured by rankings for held-out users, as in package experiment.
func TestImplicitFeedbackRanks(t *testing.T) {
	e := opened.Experiment(t, "algorithm=ada-dpals feedback=implicit split.test=0.2 split.validation=0.1 split.positive=3.5")
	for _, u := range e.Held.Test.Users {
		if items, _ := e.Train.Row(int(u)); len(items) > 0 {
			t.Fatalf("user %d is held out and trains on %d ratings", u, len(items))
		}
	}
	for _, v := range e.Split.Train.Value {
		if v < 3.5 {
			t.Fatalf("%v stars count as consumed", v)
		}
	}
	scores := make(ranked, e.Data.Items)
	for j := range scores {
		scores[j] = float64(j * 7 % 400)
	}
	want := eval.Rank(e.Held.Test, scores, eval.NewBuckets(e.Split.Train, eval.PopularityBuckets), protocol.Workers(1))
	got := e.Test.Measure(&model.Trained{Predictor: scores}, protocol.Workers(2))
	if got.Ranking == nil || got.Ranking.Recall != want.Recall || got.PrimaryMetric() != want.Recall || got.Ranking.Users != want.Users || want.Users == 0 {
		t.Errorf("quality %+v, want %+v", got.Ranking, want)
	}
	if v := e.Test.Validate(scores, protocol.Workers(1)); v == nil || v.Ranking == nil || v.Ranking.Users != eval.Rank(e.Held.Validation, scores, e.Test.Buckets, protocol.Workers(1)).Users {
		t.Errorf("on validation %+v", v)
	}
	if q := e.Test.Measure(unranked{}, protocol.Workers(1)); !math.IsNaN(q.PrimaryMetric()) {
		t.Errorf("what ranks nothing has a recall of %v", q.PrimaryMetric())
	}
	// The final model has the held-out users fitted to their histories.
	s, err := e.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Final(opened.Federation(t, e), s.Model(), protocol.Workers(2))
	if err != nil {
		t.Fatal(err)
	}
	start, err := ssp(e).Start()
	if err != nil {
		t.Fatal(err)
	}
	rows, fitted := e.Held.Test.History.ByUser(), 0
	for _, u := range e.Held.Test.Users {
		items, values := rows.Row(int(u))
		want, _ := fit(t, ssp(e), start, model.Ratings{Items: items, Values: values})
		got := m.Matrices[len(m.Matrices)-1]
		if got.Name != "user_embeddings" || !slices.Equal(got.Row(int(u)), want) {
			t.Errorf("%s of user %d is %v, want %v", got.Name, u, got.Row(int(u)), want)
		}
		if len(items) > 0 {
			fitted++
		}
	}
	if fitted == 0 {
		t.Error("no held-out user has a history")
	}
	for _, b := range e.Baselines() { // none is of a scale of ratings, nor of training alone
		switch b.Name {
		case "before_cooperation", "private_popularity", "non_private", "popularity":
		default:
			t.Errorf("it is compared with %s", b.Name)
		}
	}
	if !slices.ContainsFunc(e.Baselines(), func(b algorithm.Baseline) bool { return b.Name == "popularity" }) {
		t.Error("it is not compared with popularity")
	}
}
