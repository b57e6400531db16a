package fedssp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
)

// PredictAll equals Predict of each item, to the bit, whatever parts the model has.
func TestPredictAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	randoms := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	const items = 50
	features := kernel.NewUserFeatures(someFeatures(items), 0.7)
	for _, rank := range []int{1, 4, 5, 20} {
		for parts := range 16 {
			p := new(kernel.Params)
			if parts&2 != 0 {
				p.Popularity = 1
			}
			if parts&8 != 0 {
				p.UserFeatures = features
			}
			m := p.Unchosen()
			m.Unchosen, m.Mean, m.Items = false, 3, randoms(items*rank)
			if parts&1 != 0 {
				m.Bias = randoms(items)
			}
			if parts&6 == 6 {
				m.Popularity = randoms(items)
			}
			u := randoms(rank + p.PopularWidth() + m.Weighed.Width())
			for _, n := range []int{0, 2, 3, 4, items} {
				t.Run(fmt.Sprint(rank, "/", parts, "/", n), func(t *testing.T) {
					list, got, want := make([]int32, n), make([]float64, n), make([]float64, n)
					for i := range list {
						list[i] = int32(rng.IntN(items))
						want[i] = m.Predict(u, 0.5, int(list[i]))
					}
					if m.PredictAll(u, 0.5, list, got); !slices.Equal(got, want) {
						t.Errorf("%v, want %v", got, want)
					}
				})
			}
		}
	}
}

// BenchmarkPredictAll predicts 10,000 items, as lists do.
func BenchmarkPredictAll(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 1))
	const items, kinds = 10_000, 400
	cat := dataset.Category{Values: make([]string, 18), Start: []int32{0}}
	for range items {
		k := rng.IntN(kinds)
		for c := k % 6; c < 18; c += 6 {
			cat.Value, cat.Weight = append(cat.Value, int32(c)), append(cat.Weight, float64(1+k*c)) // no two kinds have the same ratios
		}
		cat.Start = append(cat.Start, int32(len(cat.Value)))
	}
	f := kernel.NewUserFeatures(&dataset.ItemFeatures{Items: items, Categories: []dataset.Category{cat}}, 1)
	p := new(kernel.Params)
	p.Popularity, p.UserFeatures = 1, f
	m := p.Unchosen()
	m.Unchosen, m.Mean, m.Items = false, 3, make([]float64, 4*items)
	m.Bias, m.Popularity = make([]float64, items), make([]float64, items)
	u := make([]float64, 5+f.Width())
	list, out := make([]int32, items), make([]float64, items)
	for j := range list {
		list[j] = int32(j)
	}
	for b.Loop() {
		m.PredictAll(u, 0.5, list, out)
	}
}
