package fmf

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

func responseParams(items int) ResponseParams {
	return ResponseParams{
		Params: kernel.Params{Items: items, Rank: 2, MaxRating: 5, StartMean: 3.5, Spread: 0.1, Seed: 3, Fit: kernel.Fit{Steps: 50, Ridge: 1}},
		Rounds: 10, Dimensions: 3, Epsilon: 0.8, LearningRate: 1e-4,
	}
}

// For 1,000 random users, and any coordinate, an answer keeps the chance of a sign within the
// bounds of ε₀. So it does for the user who rated everything at the top, or nothing. Some answer
// reaches the end of its range, so an answer that is not cut would need a larger ε₀.
func TestResponsesKeepLocalEpsilon(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	p := responseParams(12)
	r := NewResponse(p)
	least, most := 1., 0.
	for range 1000 {
		own := model.Ratings{}
		for j := range p.Items {
			if rng.Float64() < 0.5 {
				own.Items, own.Values = append(own.Items, int32(j)), append(own.Values, float32(5*rng.Float64()))
			}
		}
		u := r.Users([]model.Ratings{own}, protocol.Workers(1))[0]
		chance := (1 + r.answer(rng.IntN(p.Dimensions), rng.IntN(p.Rank), u, own)*math.Tanh(p.Epsilon/2)) / 2
		least, most = min(least, chance), max(most, chance)
	}
	// Yes or no, the factor between any two users is at most most/least and (1-least)/(1-most).
	if factor := max(most/least, (1-least)/(1-most)); math.Log(factor) > p.Epsilon*(1+1e-12) || math.Log(factor) < p.Epsilon*(1-1e-12) {
		t.Errorf("two users differ by a factor of e^%v; ε₀ is %v", math.Log(factor), p.Epsilon)
	}
	if chance := r.answer(0, 0, p.StartUser(), model.Ratings{}); chance != 0 {
		t.Errorf("a user without ratings answers %v", chance)
	}
}

// The oracle: Φᵀ times the mean, over users, of Φ times the cut gradient, by matrices. 40,000 users
// are of three kinds. The deviation of a coordinate of the estimate is at most the deviation of a
// message of ±k·p/tanh, over √n. Five of them: false in one of 100,000 runs.
func TestResponsesEstimateTheGradient(t *testing.T) {
	const n = 40_000
	p := responseParams(5)
	r := NewResponse(p)
	kinds := []model.Ratings{{Items: []int32{0, 2}, Values: []float32{4, 3}}, {Items: []int32{1, 3, 4}, Values: []float32{3.6, 1, 3.5}}, {}}
	rows := make([]model.Ratings, n)
	for i := range rows {
		rows[i] = kinds[i%3]
	}
	users := r.Users(rows, protocol.Workers(2))
	want := model.NewMatrix(p.Dimensions, p.Rank)
	for kind, own := range kinds {
		cut := model.NewMatrix(p.Items, p.Rank)
		for k, j := range own.Items {
			for c := range p.Rank {
				g := -2 * (float64(own.Values[k]) - model.Dot(users[kind], r.items.Row(int(j)))) * users[kind][c]
				cut.Row(int(j))[c] = math.Max(-1, math.Min(1, g))
			}
		}
		for a := range p.Dimensions {
			for c := range p.Rank {
				y := 0.
				for j := range p.Items {
					sign := -1.
					if r.signs[a*p.Items+j] {
						sign = 1
					}
					y += sign / math.Sqrt(3) * cut.Row(j)[c]
				}
				want.Row(a)[c] += math.Max(-1, math.Min(1, y)) / 3
			}
		}
	}
	before := r.items.Clone()
	if err := r.Round(1, users, rows, simulated.New(1, "response").Stream("test", 1), protocol.Workers(2)); err != nil {
		t.Fatal(err)
	}
	gamma := p.LearningRate * float64(p.Items)
	for j := range p.Items {
		for c := range p.Rank {
			g := 0.
			for a := range p.Dimensions {
				if r.signs[a*p.Items+j] {
					g += want.Row(a)[c] / math.Sqrt(3)
				} else {
					g -= want.Row(a)[c] / math.Sqrt(3)
				}
			}
			if got := (before.Row(j)[c] - r.items.Row(j)[c]) / gamma; math.Abs(got-g) > 5*p.Deviation(n) {
				t.Errorf("item %d, coordinate %d: %v, want %v ± %v", j, c, got, g, p.Deviation(n))
			}
		}
	}
}

// uniform is even over 1 to 7 values: 70,000 draws of 7 have a χ² of 6 degrees below 30, except in
// 4 of 100,000 cases.
func TestUniformPick(t *testing.T) {
	bits := noise.NewBits(simulated.New(2, "response").Stream("test", 1))
	var count [7]float64
	for range 70_000 {
		count[uniform(bits, 7)]++
	}
	chi := 0.
	for _, c := range count {
		chi += (c - 10_000) * (c - 10_000) / 10_000
	}
	if chi > 30 {
		t.Errorf("counts are %v", count)
	}
}

func TestResponseRefuses(t *testing.T) {
	p := responseParams(12)
	if p.Dimensions = 13; p.Validate() == nil || !strings.Contains(p.Validate().Error(), "from 1 to the 12 items") {
		t.Errorf("13 dimensions of 12 items: %v", p.Validate())
	}
	r := NewResponse(responseParams(12))
	if err := r.Round(1, [][]float64{{1, 1}}, make([]model.Ratings, 1), strings.NewReader("short"), protocol.Workers(1)); err == nil {
		t.Error("a stream that ended was accepted")
	}
}
