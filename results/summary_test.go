package results

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/opened"
)

// Baselines are an object of numbers, ordered by name. Read back they are in that order, without the notes.
func TestBaselinesAsJSON(t *testing.T) {
	list := Baselines{{Name: "user_mean", Note: "of the user", Value: 1.5}, {Name: "global_mean", Value: 2}}
	text, err := json.Marshal(list)
	if err != nil || string(text) != `{"global_mean":2,"user_mean":1.5}` {
		t.Errorf("%s, %v", text, err)
	}
	var back Baselines
	if err = json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Baselines{{Name: "global_mean", Value: 2}, {Name: "user_mean", Value: 1.5}}, back); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, err = json.Marshal(Baselines(nil)); err != nil || string(text) != "{}" {
		t.Errorf("none are %s, %v", text, err)
	}
	if err = json.Unmarshal([]byte(`{"user_mean":"much"}`), &back); err == nil {
		t.Error("a text was read as a number")
	}
	if v, ok := list.Of("user_mean"); v != 1.5 || !ok {
		t.Errorf("user_mean is %v, %t", v, ok)
	}
	if _, ok := list.Of("local_only"); ok {
		t.Error("there is a baseline that nobody measured")
	}
}

// A run is compared by its error or, if it ranks, by its recall. The summary has only measured
// numbers.
func TestSummaryOfQuality(t *testing.T) {
	ratings, rankings := eval.Quality{RMSE: 0.9, MSE: 0.81, MAE: 0.7}, eval.Quality{Ranking: &eval.Ranking{Users: 3, Recall: 0.25, NDCG: 0.125}}
	for _, tt := range []struct {
		quality           eval.Quality
		primary           float64
		has, hasNot       string
		validation, other string
	}{
		{ratings, 0.9, `"test_rmse":0.9,"test_mse":0.81,"test_mae":0.7`, "ndcg@20", `"validation_rmse":0.9`, "validation_recall"},
		{rankings, 0.25, `"recall@20":0.25,"ndcg@20":0.125`, "test_rmse", `"validation_recall@20":0.25`, "validation_rmse"},
	} {
		var s Summary
		s.SetQuality(tt.quality, make([]eval.ErrorSlice, eval.PopularityBuckets))
		before, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		if s.PrimaryMetric() != tt.primary || !strings.Contains(string(before), tt.has) || strings.Contains(string(before), tt.hasNot) {
			t.Errorf("compared by %v: %s", s.PrimaryMetric(), before)
		}
		s.SetValidation(tt.quality)
		after, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(before), "validation") || !strings.Contains(string(after), tt.validation) || strings.Contains(string(after), tt.other) {
			t.Errorf("with validation: %s", after)
		}
	}
}

// Lists of recommendations stand in the summary beside errors, and beside the metrics of rankings
// without the numbers that both have. The part of rankings is read back.
func TestSummaryOfLists(t *testing.T) {
	stars := 4.0
	lists := &eval.ListQuality{Users: 3, OfUsers: 5, Relevant: &stars, At: []eval.ListMetrics{{K: 5, Recall: 0.5, NDCG: 0.25}, {K: 20, Recall: 0.125, Hit: 1}}}
	var ratings, rankings Summary
	ratings.SetQuality(eval.Quality{RMSE: 0.9}, make([]eval.ErrorSlice, eval.PopularityBuckets))
	ratings.SetLists(nil)
	if ratings.Ranking != nil {
		t.Errorf("lists that were not made: %+v", ratings.Ranking)
	}
	ratings.SetLists(lists)
	rankings.SetQuality(eval.Quality{Ranking: &eval.Ranking{Users: 3, Recall: 0.125, NDCG: 0.0625}}, make([]eval.ErrorSlice, eval.PopularityBuckets))
	rankings.SetLists(&eval.ListQuality{Users: 3, OfUsers: 3, At: lists.At})
	for name, s := range map[string]Summary{"ratings": ratings, "rankings": rankings} {
		b, err := json.Marshal(s.Ranking)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(b); strings.Count(text, `"recall@20":0.125`) != 1 || strings.Count(text, `"users":3`) < 1 || !strings.Contains(text, `"hit@20":1`) || strings.Contains(text, `"slices"`) != (name == "rankings") {
			t.Errorf("%s: %s", name, text)
		}
		var back RankingSummary
		if err = json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(RankingSummary{Ranking: s.Ranking.Ranking}, back); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A round that cannot be made up for is told once; a round that can be made up for is not told.
func TestRecordSkipped(t *testing.T) {
	e := opened.Experiment(t, "algorithm=ssp-c")
	var s Summary
	for round := range uint64(e.Schedule.Rounds()) {
		s.RecordSkipped(round+1, e)
		s.RecordSkipped(round+1, e)
	}
	s.RecordSkipped(1000, e) // there is no such round
	if want := []string{"a round that tells how much each item was rated was skipped: less is known of items, and nothing if all of them are"}; !cmp.Equal(s.Lost, want) {
		t.Errorf("lost is %q, want %q", s.Lost, want)
	}
	s = Summary{}
	s.RecordSkipped(1, opened.Experiment(t, ""))
	if s.Lost != nil {
		t.Errorf("lost is %q of a run whose rounds are all alike", s.Lost)
	}
}

// Lists with an NDCG of 0.204 have 1.02 times the NDCG of popularity, which is hardly better. At 0.205 they are better. Half of the users
// are better off than the median in lists, and worse off in errors.
func TestListsBesidePopularity(t *testing.T) {
	q := &eval.ListQuality{Users: 3, At: []eval.ListMetrics{{K: 10, NDCG: 0.2}}}
	for own, want := range map[float64]string{
		0.204: "\npopularity  NDCG 0.2000 by exact counts, 0.2000 by the run's: as good\nusers       half have an RMSE below 0.7000, and 5% above 1.4000",
		0.205: "\npopularity  NDCG 0.2000 by exact counts, 0.2000 by the run's\nusers       half have an RMSE below 0.7000, and 5% above 1.4000",
	} {
		s := &Summary{Spread: &eval.Spread{Quantiles: map[string]eval.Quantiles{"rmse": {P50: 0.7, P95: 1.4}, "ndcg@10": {P50: 0.1}}}}
		s.SetPopularity(ExactCounts, q)
		s.SetPopularity(ReleasedCounts, q)
		if got := popularity(t, s, own); got != want {
			t.Errorf("at %v: %q, want %q", own, got, want)
		}
	}
	every := &Summary{}
	every.SetPopularity(ExactCounts, q)
	for _, x := range q.Named() {
		if v, ok := every.Popularity[ExactCounts][x.Name]; strings.Contains(x.Name, "@") && (!ok || v != x.Value) {
			t.Errorf("%s of popularity is %v, %t", x.Name, v, ok)
		}
	}
	s := &Summary{RankingMetrics: new(RankingMetrics), Spread: &eval.Spread{Quantiles: map[string]eval.Quantiles{"ndcg@10": {P50: 0.1, P95: 0.6}}}}
	if got := popularity(t, s, 0.2); got != "\nusers       half have an NDCG above 0.1000, and 5% above 0.6000" {
		t.Errorf("%q", got)
	}
}

// popularity prints lists of ten items with an NDCG beside popularity.
func popularity(t *testing.T, s *Summary, own float64) string {
	t.Helper()
	s.Ranking = &RankingSummary{Lists: &eval.ListQuality{At: []eval.ListMetrics{{K: 10, NDCG: own}}}}
	var b strings.Builder
	if err := summaryForm.ExecuteTemplate(&b, "popularity", printed{Summary: s, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The gain is over the best choice that the budget or a public rule buys. A start that would not be deployed does not count where a
// better choice is there, and models that are not private never count. The price is of the noise alone. By hand: 0.9136 - 0.8677,
// 0.8677 - 0.8554, and for recalls the other way round.
func TestGainIsOverTheBestSimplerChoice(t *testing.T) {
	errors := Baselines{{Name: "before_cooperation", Value: 1.0258}, {Name: "private_item_bias", Value: 0.9136}, {Name: "item_bias", Value: 0.80}, {Name: "non_private", Value: 0.8554}}
	recalls := Baselines{{Name: "before_cooperation", Value: 0.01}, {Name: "private_popularity", Value: 0.16}, {Name: "non_private", Value: 0.3}}
	const price = " by noise at these settings; whole price: --epsilon inf"
	for _, c := range []struct {
		s    Summary
		want []string
	}{
		{Summary{RatingSummary: &RatingSummary{TestRMSE: 0.8677}, Baselines: errors}, []string{"gain        RMSE 0.0459 better than the best simpler choice (private_item_bias)", "price       0.0123" + price}},
		{Summary{RatingSummary: &RatingSummary{TestRMSE: 0.95}, Baselines: errors}, []string{"gain        none: the simpler private_item_bias is 0.0364 better", "price       0.0946" + price}},
		{Summary{RankingMetrics: &RankingMetrics{Recall: 0.25}, Baselines: recalls}, []string{"gain        Recall@20 0.0900 better than the best simpler choice (private_popularity)", "price       0.0500" + price}},
		{Summary{RankingMetrics: &RankingMetrics{Recall: 0.16}, Baselines: recalls[:2]}, []string{"gain        none: the simpler private_popularity is 0.0000 better"}},
		{Summary{RatingSummary: &RatingSummary{TestRMSE: 0.95}, Baselines: errors[2:3]}, nil},
	} {
		if d := cmp.Diff(c.want, c.s.means()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}
