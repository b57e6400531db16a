package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/dense"
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
	features := &UserFeatures{width: 6, start: []int32{0, 2, 3, 3}, column: []int{0, 4, 5}, value: []float64{0.7, 0.7, 1}}
	for range items {
		features.kind = append(features.kind, int32(rng.IntN(3)))
	}
	features.Sparse = dense.NewSparseRows(features.width, features.kind, features.start, features.column, features.value)
	for _, rank := range []int{1, 4, 5, 20} {
		for parts := range 16 {
			m := &Model{Mean: 3, Items: randoms(items * rank)}
			if parts&1 != 0 {
				m.Bias = randoms(items)
			}
			if parts&2 != 0 {
				m.popular = 1
			}
			if parts&6 == 6 {
				m.Popularity = randoms(items)
			}
			if parts&8 != 0 {
				m.Weighed = features
			}
			u := randoms(rank + m.popular + m.Weighed.Width())
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
	f := &UserFeatures{width: 18, start: []int32{0}}
	for k := range kinds {
		for c := k % 5; c < 18; c += 6 {
			f.column, f.value = append(f.column, c), append(f.value, 0.5)
		}
		f.start = append(f.start, int32(len(f.column)))
	}
	for range items {
		f.kind = append(f.kind, int32(rng.IntN(kinds)))
	}
	f.Sparse = dense.NewSparseRows(f.width, f.kind, f.start, f.column, f.value)
	m := &Model{Mean: 3, Items: make([]float64, 4*items), Bias: make([]float64, items), Popularity: make([]float64, items), popular: 1, Weighed: f}
	u := make([]float64, 5+18)
	list, out := make([]int32, items), make([]float64, items)
	for j := range list {
		list[j] = int32(j)
	}
	for b.Loop() {
		m.PredictAll(u, 0.5, list, out)
	}
}
