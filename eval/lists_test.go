package eval

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/protocol"
)

// listOracle is the output of testdata/lists.py: a set, and metrics computed from their
// definitions.
type listOracle struct {
	Users        int          `json:"users"`
	Items        int          `json:"items"`
	Relevant     float64      `json:"relevant"`
	WithRelevant int          `json:"with_relevant"`
	Train        [][3]float64 `json:"train"`
	Validation   [][3]float64 `json:"validation"`
	Test         [][3]float64 `json:"test"`
	Scores       [][]float64  `json:"scores"`
	Metrics      map[string]map[string]float64
}

func (o *listOracle) part(rows [][3]float64) dataset.Ratings {
	r := dataset.Ratings{Users: o.Users, Items: o.Items}
	for _, x := range rows {
		r.User, r.Item, r.Value = append(r.User, int32(x[0])), append(r.Item, int32(x[1])), append(r.Value, float32(x[2]))
	}
	return r
}

func (o *listOracle) open(t *testing.T) Test {
	t.Helper()
	b, err := os.ReadFile("testdata/lists.json")
	if err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(b, o); err != nil {
		t.Fatal(err)
	}
	return NewTest(&split.Parts{Train: o.part(o.Train), Validation: o.part(o.Validation), Test: o.part(o.Test)}, 1, 5, PopularityBuckets)
}

// predictor predicts by a function of the user and the item.
type predictor func(user int, item int32) float64

func (p predictor) Predict(user int, items []int32, out []float64) {
	for i, j := range items {
		out[i] = p(user, j)
	}
}

// testdata/lists.py computes the expected values.
func TestListsAgainstTheirDefinitions(t *testing.T) {
	var o listOracle
	test := o.open(t)
	q := ListParams{Relevant: o.Relevant}
	for k := range o.Metrics {
		n, err := strconv.Atoi(k)
		if err != nil {
			t.Fatal(err)
		}
		q.Cutoffs = append(q.Cutoffs, n)
	}
	slices.Sort(q.Cutoffs)
	scores := predictor(func(user int, item int32) float64 { return o.Scores[user][item] })
	for workers := range 3 {
		got := test.Lists(scores, q, protocol.Workers(workers+1))
		if got.Users != o.WithRelevant || got.OfUsers != o.WithRelevant || *got.Relevant != o.Relevant || len(got.At) != len(o.Metrics) {
			t.Fatalf("%+v", got)
		}
		for _, m := range got.At {
			want := o.Metrics[strconv.Itoa(m.K)]
			if len(want) != len(m.named()) {
				t.Errorf("%d metrics, want %d", len(m.named()), len(want))
			}
			for _, x := range m.named() {
				if w, ok := want[x.name]; !ok || math.Abs(*x.value-w) > 1e-12 {
					t.Errorf("%s@%d is %v, want %v", x.name, m.K, *x.value, w)
				}
			}
		}
	}
}

// Each number has a name of its own.
func TestListsByName(t *testing.T) {
	var o listOracle
	test := o.open(t)
	want := test.Lists(predictor(func(user int, item int32) float64 { return o.Scores[user][item] }), ListParams{Cutoffs: []int{3, 10}, Relevant: 4}, protocol.Workers(1))
	values := make(map[string]float64)
	for _, x := range want.Named() {
		if _, twice := values[x.Name]; twice {
			t.Errorf("%s is there twice", x.Name)
		}
		values[x.Name] = x.Value
	}
	if values["ndcg@10"] != want.At[1].NDCG || values["users"] != float64(want.Users) {
		t.Errorf("%v, of %+v", values, want)
	}
}

// With implicit feedback, the lists equal the lists of Rank: Recall@20 and NDCG@20 are the same
// numbers, and TestRankByHand has their values from another source.
func TestListsOfHeldOutUsers(t *testing.T) {
	h := split.HeldOut{
		Users:   []int32{0, 1, 2},
		History: ratings(200, nil, nil, []int32{7}),
		Target:  ratings(200, []int32{3, 19, 90}, nil, []int32{6, 8, 20, 21, 150}),
	}
	held := &split.HoldOut{Train: modulo(), Test: h}
	test := NewTest(&split.Parts{Train: held.Train, Test: h.Target, Held: held}, 1, 5, PopularityBuckets)
	s := scored{scorer(func(_, item int) float64 { return -float64(item) })}
	want := Rank(h, s, test.Buckets, protocol.Workers(1))
	got := test.Lists(s, ListParams{Cutoffs: []int{RankingCutoff}, Relevant: 5, MostUsers: 1}, protocol.Workers(2))
	if got.Users != 2 || got.Relevant != nil || got.At[0].Recall != want.Recall || got.At[0].NDCG != want.NDCG || want.Recall == 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if nothing := test.Lists(Constant(3), ListParams{Cutoffs: []int{5}}, protocol.Workers(1)); nothing != nil {
		t.Errorf("what scores nobody has lists: %+v", nothing)
	}
}

// scored is a Scorer that passes for a predictor.
type scored struct{ scorer }

func (scored) Predict(int, []int32, []float64) { panic("held-out users are scored") }

// Of many users some are measured, evenly spread. Without anything to measure the result is nil.
func TestListsOfSomeUsers(t *testing.T) {
	var o listOracle
	test := o.open(t)
	asked := make([]bool, o.Users)
	ask := predictor(func(user int, item int32) float64 { asked[user] = true; return -float64(item) })
	got := test.Lists(ask, ListParams{Cutoffs: []int{5}, Relevant: o.Relevant, MostUsers: 4}, protocol.Workers(1))
	if got.Users != 4 || got.OfUsers != o.WithRelevant {
		t.Errorf("%d of %d users, want 4 of %d", got.Users, got.OfUsers, o.WithRelevant)
	}
	var who []int
	for u, yes := range asked {
		if yes {
			who = append(who, u)
		}
	}
	if len(who) != 4 || who[3]-who[0] < o.Users/2 {
		t.Errorf("users %v were asked about", who)
	}
	for _, q := range []ListParams{{Relevant: 4}, {Cutoffs: []int{5}, Relevant: 5.5}} {
		if got := test.Lists(ask, q, protocol.Workers(1)); got != nil {
			t.Errorf("%+v: %+v", q, got)
		}
	}
}
