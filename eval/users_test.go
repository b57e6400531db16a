package eval

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/protocol"
)

// NumPy prints the quantiles for numpy.quantile([1, 2, 4, 8], [0.05, 0.25, 0.5, 0.75, 0.95]).
func TestQuantilesByNumPy(t *testing.T) {
	for p, want := range map[float64]float64{0.05: 1.15, 0.25: 1.75, 0.5: 3, 0.75: 5, 0.95: 7.4} {
		if got := quantile([]float64{1, 2, 4, 8}, p); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v is at %v, want %v", p, got, want)
		}
	}
	if got := quantile([]float64{3}, 0.95); got != 3 {
		t.Errorf("of one number: %v", got)
	}
}

// Six users have rated 1, 1, 1, 2, 3 and 4 items in training, and one item of 5 stars in the test, except that the last user has
// two, of 5 and 1. A prediction of 3 for all has errors of 2. A prediction of 5 has the errors 0 and, for the last user, 0 and 4: RMSE
// √8, MAE 2. A fifth of six is rounded up to 2, and equal numbers stay together: groups of 1 (three users), 2, 3 and 4 ratings.
func TestSpreadByHand(t *testing.T) {
	train := dataset.Ratings{Users: 6, Items: 10}
	test := train
	for u, n := range []int{1, 1, 1, 2, 3, 4} {
		for j := range n {
			train.User, train.Item, train.Value = append(train.User, int32(u)), append(train.Item, int32(j)), append(train.Value, 3)
		}
		test.User, test.Item, test.Value = append(test.User, int32(u)), append(test.Item, 8), append(test.Value, 5)
	}
	test.User, test.Item, test.Value = append(test.User, 5), append(test.Item, 9), append(test.Value, 1)
	all := NewTest(&split.Parts{Train: train, Test: test}, 1, 5, PopularityBuckets)
	lists := all.Lists(predictor(func(user int, item int32) float64 { return float64(int32(user)%2*item) - float64(item)/2 }), ListParams{Cutoffs: []int{2}, Relevant: 4}, protocol.Workers(1))
	got := all.Spread(all.ErrorsByUser(Constant(5), protocol.Workers(2)), lists.ByUser)
	want := []Activity{{Users: 3, From: 1, To: 1}, {Users: 1, From: 2, To: 2}, {Users: 1, From: 3, To: 3}, {Users: 1, From: 4, To: 4}}
	if d := cmp.Diff(want, got.Activity, cmpopts.IgnoreFields(Activity{}, "Means")); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
	// Users 1, 3 and 5 have the highest items first: 9, then 8, which is a hit. The others begin at the lowest.
	for i, hit := range []float64{1. / 3, 1, 0, 1} {
		rmse, mae := 0., 0.
		if i == 3 {
			rmse, mae = math.Sqrt(8), 2
		}
		m := got.Activity[i].Means
		if math.Abs(m["hit@2"]-hit) > 1e-12 || math.Abs(m["rmse"]-rmse) > 1e-12 || math.Abs(m["mae"]-mae) > 1e-12 {
			t.Errorf("group %d: %v, want hit %v, RMSE %v, MAE %v", i, m, hit, rmse, mae)
		}
	}
	if q := got.Quantiles["rmse"]; q.P75 != 0 || math.Abs(q.P95-0.75*math.Sqrt(8)) > 1e-12 { // between the fifth and the sixth of six users
		t.Errorf("%+v", q)
	}
	if q := got.Quantiles["hit@2"]; q.P25 != 0 || q.P50 != 0.5 || q.P75 != 1 {
		t.Errorf("%+v", q)
	}
	if none := all.Spread(nil, &ByUser{}); none != nil {
		t.Errorf("without users: %+v", none)
	}
}
