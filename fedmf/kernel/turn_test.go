package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A step on vectors has the bits of the portable step: of steps up and down, of coordinates that
// become negative, of zeros of both signs, and of numbers that are not finite.
func TestTurnOnVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	odd := []float64{0, math.Copysign(0, -1), math.Inf(1), math.NaN(), 1e300}
	bits := func(x []float64) (b []uint64) {
		for _, y := range x {
			b = append(b, math.Float64bits(y))
		}
		return b
	}
	for _, rank := range []int{1, 3, 4, 6, 8, 20, 64} {
		for at := range 400 {
			u, v := make([]float64, rank), make([]float64, rank)
			for c := range u {
				u[c], v[c] = rng.Float64(), rng.Float64()
				if at%10 == 0 && rng.IntN(5) == 0 {
					u[c], v[c] = odd[rng.IntN(len(odd))], odd[rng.IntN(2)]
				}
			}
			wantU, wantV := slices.Clone(u), slices.Clone(v)
			value, rate := 5*rng.Float64(), rng.Float64()
			n, m := turn(u, v, value, rate)
			wantN, wantM := turnByFours(wantU, wantV, value, rate)
			if math.IsNaN(wantN) || math.IsNaN(wantM) { // the bits of a NaN say nothing
				if math.IsNaN(n) != math.IsNaN(wantN) || math.IsNaN(m) != math.IsNaN(wantM) {
					t.Fatalf("rank %d: norms %v and %v, want %v and %v", rank, n, m, wantN, wantM)
				}
				continue
			}
			if !slices.Equal(bits(append(u, n)), bits(append(wantU, wantN))) || !slices.Equal(bits(append(v, m)), bits(append(wantV, wantM))) {
				t.Fatalf("rank %d: %v and %v, want %v and %v", rank, u, v, wantU, wantV)
			}
		}
	}
}
