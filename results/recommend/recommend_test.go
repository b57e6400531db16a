package recommend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	_ "github.com/fedsim/fedsim/internal/families" // registers the built-in algorithms
	"github.com/fedsim/fedsim/model"
)

// made returns a recommender of one user and five items in the plane, at right angles, along the
// diagonal, opposite, and one at the origin.
func made() *Recommender {
	set := &dataset.Set{
		Name: "made", Min: 1, Max: 5, Ratings: dataset.Ratings{Users: 1, Items: 5}, UserIDs: []string{"u"},
		ItemIDs: []string{"a", "b", "c", "d", "e"}, Titles: []string{"East", "North", "North-East", "West", ""},
	}
	users, items := model.NewMatrix(1, 2), model.NewMatrix(5, 2)
	copy(users.Data(), []float64{2, 1})
	copy(items.Data(), []float64{3, 0, 0, 0.5, 1, 1, -7, 0, 0, 0})
	return &Recommender{Data: set, train: set.ByUser(), saved: &algorithm.Saved{Items: items, Score: func(user int, out []float64) {
		for j := range out {
			out[j] = model.Dot(users.Row(user), items.Row(j))
		}
	}}}
}

func near(id, title string, cosine float64) Neighbour {
	return Neighbour{Item: Item{ID: id, Title: title}, Cosine: &cosine}
}

// TestSimilarByHand: cosines of 45, 90 and 180 degrees; an item without a direction is similar to
// none.
func TestSimilarByHand(t *testing.T) {
	r := made()
	got, err := r.Similar("EAST", 10, Cosine)
	if !errors.Is(err, ErrAmbiguous) || got != nil {
		t.Errorf("a part of two titles: %v, %v", got, err)
	}
	if got, err = r.Similar("East", 10, Cosine); err != nil {
		t.Fatal(err)
	}
	want := []Neighbour{near("c", "North-East", math.Sqrt(0.5)), near("b", "North", 0), near("d", "West", -1)}
	if diff := cmp.Diff(want, got.Items, cmpopts.EquateApprox(0, 1e-15)); got.Item.ID != "a" || diff != "" {
		t.Errorf("%v (-want +got):\n%s", got.Item, diff)
	}
	if got, err = r.Similar("e", 10, Cosine); err == nil || got != nil || !strings.Contains(err.Error(), "the embedding of e is zero") {
		t.Errorf("without a direction: %v, %v", got, err)
	}
}

// TestRecommendByHand: 6, 0.5, 3, -14 and 0 by inner product, clamped to the scale of 1 to 5 after
// they are sorted.
func TestRecommendByHand(t *testing.T) {
	got, err := made().Recommend("u", 10)
	want := []Recommendation{
		{Item{ID: "a", Title: "East"}, 6, 5}, {Item{ID: "c", Title: "North-East"}, 3, 3}, {Item{ID: "b", Title: "North"}, 0.5, 1}, {Item{ID: "e"}, 0, 1}, {Item{ID: "d", Title: "West"}, -14, 1},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A program that sorts by score gets the list, by whatever the model orders: also if the predictions ascend, if scores are equal, and
// if one is minus infinity.
func TestScoreOrders(t *testing.T) {
	for name, order := range map[string]func([]int32, []float64){
		"reversed": func(_ []int32, s []float64) {
			for j := range s {
				s[j] = -s[j]
			}
		},
		"equal":    func(_ []int32, s []float64) { copy(s, []float64{2, 2, 2, 2, 2}) },
		"infinite": func(_ []int32, s []float64) { copy(s, []float64{1, math.Inf(-1), math.Inf(1), math.Inf(-1), 1}) },
		"lowest":   func(_ []int32, s []float64) { copy(s, slices.Repeat([]float64{math.Inf(-1)}, 5)) },
	} {
		r := made()
		r.saved.Order = order
		got, err := r.Recommend("u", 10)
		if err != nil || len(got) != 5 {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		for i := range got[1:] {
			if !(got[i].Score > got[i+1].Score) {
				t.Errorf("%s: place %d has the score %v, and the next %v", name, i+1, got[i].Score, got[i+1].Score)
			}
		}
		if _, err = json.Marshal(got); err != nil { // infinities are no JSON
			t.Errorf("%s: %v", name, err)
		}
		if name == "reversed" && (got[0].ID != "d" || got[0].Score != 14 || got[0].Predicted != 1) {
			t.Errorf("first is %+v, want d by 14, which has 1 star", got[0])
		}
	}
}

// Ranks order lists before scores, and scores before predictions. Errors are of predictions before scores, and never of ranks.
func TestColumnsOfAFile(t *testing.T) {
	for head, want := range map[string]columns{
		"user item score predicted rank": {0, 1, 3, 4, true},
		"item USER predicted score":      {1, 0, 2, 3, false},
		"user item score":                {0, 1, 2, 2, false},
		"user item prediction":           {0, 1, 2, 2, false},
		"user item rank":                 {0, 1, -1, 2, true},
	} {
		if got, err := columnsOf(bytes.Fields([]byte(head))); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", head, got, err, want)
		}
	}
	if _, err := columnsOf(bytes.Fields([]byte("user item rating"))); err == nil {
		t.Error("a file without predictions, scores and ranks is read")
	}
}

// TestFindItem: a title before an id, an id before a part of a title, and no guess.
func TestFindItem(t *testing.T) {
	set := &dataset.Set{Name: "films", Ratings: dataset.Ratings{Items: 4}, ItemIDs: []string{"1", "7", "300", "10"}, Titles: []string{"300", "Seven 10", "Heat", "Heat"}}
	for text, want := range map[string]int{"300": 0, "seven": 1, "10": 3, "1": 0, "7": 1} {
		if got, err := findItem(set, text); err != nil || got != want {
			t.Errorf("%s is item %d, %v; want %d", text, got, err, want)
		}
	}
	if _, err := findItem(set, "Heat"); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "\n  Heat (id 300)\n  Heat (id 10)") {
		t.Errorf("two of one title: %v", err)
	}
	many := &dataset.Set{Name: "many", Ratings: dataset.Ratings{Items: 13}}
	for j := range many.Items {
		many.ItemIDs, many.Titles = append(many.ItemIDs, fmt.Sprintf("id%d", j)), append(many.Titles, "Part of one")
	}
	if _, err := findItem(many, "part"); err == nil || strings.Count(err.Error(), "(id") != maxCandidates || !strings.HasSuffix(err.Error(), "and 3 more") {
		t.Errorf("thirteen: %v", err)
	}
	many.Titles = nil
	if j, err := findItem(many, "id3"); err != nil || j != 3 {
		t.Errorf("without titles: item %d, %v", j, err)
	}
	if _, err := findItem(many, "id"); !errors.Is(err, ErrNotThere) || !strings.Contains(err.Error(), "many has no titles, give an id such as id0") {
		t.Errorf("without titles: %v", err)
	}
}

// A user whom an organisation does not know is recommended items by the mean of its users' embeddings, by hand.
func TestMeanRowByHand(t *testing.T) {
	m := model.NewMatrix(4, 2)
	for i, row := range [][]float64{{1, 2}, {3, -6}, {5, 0}, {-1, 1}} {
		copy(m.Row(i), row)
	}
	if got := meanRow(m); !slices.Equal(got, []float64{2, -0.75}) {
		t.Errorf("the mean is %v, want 2 and -0.75", got)
	}
}
