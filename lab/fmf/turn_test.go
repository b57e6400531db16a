package fmf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// turnPlainly is the step in one loop over the coordinates. Its sums have the parts and the order of turn.
func turnPlainly(u, v []float64, value, rate float64) (normU, normV float64) {
	whole := len(u) &^ 3
	part := func(c int) int {
		if c < whole {
			return c % 4
		}
		return 0
	}
	var s [4]float64
	for c := range u {
		s[part(c)] += u[c] * v[c]
	}
	step := rate * (value - ((s[0] + s[1]) + (s[2] + s[3])))
	for c := range u {
		x, y := u[c]+step*v[c], v[c]+step*u[c]
		if x < 0 {
			x = 0
		}
		if y < 0 {
			y = 0
		}
		u[c], v[c] = x, y
	}
	norm := func(x []float64) float64 {
		var even, odd float64
		for c := 0; c < whole; c += 4 {
			even += x[c]*x[c] + x[c+2]*x[c+2]
			odd += x[c+1]*x[c+1] + x[c+3]*x[c+3]
		}
		for _, y := range x[whole:] {
			even += y * y
		}
		return even + odd
	}
	return norm(u), norm(v)
}

// A step has the bits of the plain loop: of steps up and down, of coordinates that become negative, of zeros
// of both signs, and of numbers that are not finite.
func TestTurn(t *testing.T) {
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
			wantN, wantM := turnPlainly(wantU, wantV, value, rate)
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
