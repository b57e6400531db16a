package fedssp

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
)

// genres returns features of six items in one category: two of Action, two of both, two of Drama.
func genres() *dataset.ItemFeatures {
	return &dataset.ItemFeatures{Items: 6, Categories: []dataset.Category{{
		Name: "genre", Values: []string{"Action", "Drama"},
		Start: []int32{0, 1, 2, 4, 6, 7, 8}, Value: []int32{0, 0, 0, 1, 0, 1, 1, 1}, Weight: []float64{1, 1, 1, 1, 1, 1, 1, 1},
	}}}
}

var rated = []float64{40, 10, 20, 10, 15, 5}

// The expected scores are computed here from the formula, with the shares of genres worked out by
// hand: an item of both genres is half of each.
func TestOrder(t *testing.T) {
	const action, drama = 0.40 + 0.10 + 0.5*0.20 + 0.5*0.10, 0.5*0.20 + 0.5*0.10 + 0.15 + 0.05
	// Var(x²) of Action: E[x⁴] - E[x²]².
	chance := (0.50+0.25*0.30-action*action)/action + (0.20+0.25*0.30-drama*drama)/drama
	history := []int32{2, 4, 5} // 0.5 of Action and 2.5 of Drama
	apart := 3 * (math.Pow(0.5/3-action, 2)/action + math.Pow(2.5/3-drama, 2)/drama)
	keep := 1 - chance/apart
	if keep <= 0 || keep >= 1 {
		t.Fatalf("the case tells nothing: %v of the difference is kept", keep)
	}
	ofAction, ofDrama := math.Log(1+keep*(0.5/3/action-1)), math.Log(1+keep*(2.5/3/drama-1))
	taste := []float64{ofAction, ofAction, (ofAction + ofDrama) / 2, (ofAction + ofDrama) / 2, ofDrama, ofDrama}

	scores := []float64{4, 3, 3.5, 2, 5, math.NaN()}
	predicted := append([]float64(nil), scores...)
	kernel.NewOrder(rated, genres(), 0.7).Rank(history, scores)
	for j, x := range scores {
		want := math.Log(rated[j]) + taste[j] + 0.7*predicted[j]
		if math.Abs(x-want) > 1e-12 && !(math.IsNaN(x) && math.IsNaN(want)) {
			t.Errorf("item %d: score %v, want %v", j, x, want)
		}
	}
}

// A user whose genres differ no more than by chance has no taste, nor has a user of whom nothing is
// known, or a catalogue without features. Items without ratings count as the least rated.
func TestOrderWithoutTaste(t *testing.T) {
	for name, c := range map[string]struct {
		f       *dataset.ItemFeatures
		history []int32
		counts  []float64
	}{
		"chance":      {genres(), []int32{0, 1, 3}, rated},
		"unknown":     {genres(), nil, rated},
		"no features": {nil, []int32{4, 5}, rated},
		"zero":        {nil, []int32{4, 5}, []float64{40, 10, 20, 10, 15, 0}},
	} {
		scores := []float64{1, 2, 3, 4, 5, 6}
		kernel.NewOrder(c.counts, c.f, 2).Rank(c.history, scores)
		for j, x := range scores {
			least := 5.
			if c.counts[5] == 0 {
				least = 10
			}
			if want := math.Log(max(c.counts[j], least)) + 2*float64(j+1); math.Abs(x-want) > 1e-12 {
				t.Errorf("%s: item %d has score %v, want %v", name, j, x, want)
			}
		}
	}
}

func TestCountsOfChosenItems(t *testing.T) {
	m := &kernel.Model{Counts: []float64{7, 3}, Chosen: &kernel.Choice{Items: []int32{1, 3}, Place: []int32{^0, 0, ^1, 1}}}
	got := m.CountsOf(4)
	for j, want := range []float64{3, 7, 3, 3} {
		if got[j] != want {
			t.Errorf("item %d counts %v, want %v", j, got[j], want)
		}
	}
	if new(kernel.Model).CountsOf(4) != nil {
		t.Error("a model without counts has counts")
	}
}
