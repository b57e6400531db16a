package internal_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/dense"
)

func BenchmarkSolveUpper(b *testing.B) {
	rng := rand.New(rand.NewPCG(6, 1))
	const d = 34
	a := make([]float64, d*d)
	dense.AddOuter(a, d, randoms(rng, 2*d*d), d, d)
	x := randoms(rng, d)
	for _, c := range []struct {
		name  string
		solve func(a, b []float64, d int) bool
	}{{"here", dense.SolveUpper}, {"LAPACK", plainSolve}} {
		b.Run(c.name, func(b *testing.B) {
			m, y := slices.Clone(a), slices.Clone(x)
			for b.Loop() {
				copy(m, a)
				copy(y, x)
				c.solve(m, y, d)
			}
		})
	}
}

func BenchmarkAddOuter(b *testing.B) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, d := range []int{7, 14, 33} {
		rows, a := randoms(rng, 160*d), make([]float64, d*d)
		b.Run(fmt.Sprint(d), func(b *testing.B) {
			for b.Loop() {
				dense.AddOuter(a, d, rows, d, d)
			}
		})
	}
}
