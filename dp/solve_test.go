package dp

import (
	"fmt"
	"math"
	"testing"
)

// counted counts the calls of a bound.
type counted struct {
	privacyBound
	asked *int
}

func (c counted) epsilon(delta float64) float64 {
	*c.asked++
	return c.privacyBound.epsilon(delta)
}

// climbed climbs plainly to the smallest fixed point: slow, and sure to skip no fixed point.
func climbed(s Budget, b privacyBound) (epsilon float64, steps int) {
	eps := b.epsilon(s.Delta - 2*s.SamplerError)
	for steps = 1; steps < 200000 && !math.IsInf(eps, 1); steps++ {
		raised := eps + 1e-10*(1+eps)
		next := b.epsilon(s.Delta - s.SamplerError*(1+math.Exp(raised)))
		if next <= raised {
			return raised, steps
		}
		eps = next
	}
	return eps, steps
}

// If the samplers' error takes much of δ, the answer equals the plain climb's to 1e-9, relative,
// after a few evaluations instead of thousands. If it takes little, the answer equals the climb's
// to the bit. The slowest climbs are next to the largest μ that has an ε: the grid of μ surrounds
// it.
func TestSolveAgreesWithThePlainClimb(t *testing.T) {
	t.Parallel()
	most, longest, identical, none := 0, 0, 0, 0
	check := func(s Budget, name string, b privacyBound) {
		want, steps := climbed(s, b)
		asked := 0
		got := s.solve(counted{b, &asked})
		if curve, ok := b.(renyiCurve); ok {
			got, asked = s.solve(curve), 0
		}
		most, longest = max(most, asked), max(longest, steps)
		switch {
		case math.IsInf(want, 1) && math.IsInf(got, 1):
			none++
		case steps <= 8 && got == want:
			identical++
		case steps <= 8 || !(math.Abs(got-want) <= 1e-9*want):
			t.Errorf("%s, E=%g: solved as %v; %v after %d plain steps", name, s.SamplerError, got, want, steps)
		}
	}
	for _, e := range []float64{1e-12, 2e-20, 1e-25, 1e-29} {
		s := Budget{Delta: 1e-5, SamplerError: e}
		for name, of := range map[string]func(mu float64) privacyBound{
			"Gaussian": func(mu float64) privacyBound { return gaussianMu(mu) },
			"Rényi": func(mu float64) privacyBound {
				curve := make(renyiCurve, len(renyiOrders))
				for i, alpha := range renyiOrders {
					curve[i] = alpha * mu * mu / 2
				}
				return curve
			},
		} {
			edge := 0.1 // the largest μ with an ε
			for step := 16.0; step > 1e-5; step /= 2 {
				if eps, _ := climbed(s, of(edge+step)); !math.IsInf(eps, 1) {
					edge += step
				}
			}
			for _, step := range []float64{0.3, 0.03, 1e-3, 1e-4} {
				for k := -3; k <= 3; k++ {
					if mu := edge + float64(k)*step; mu > 0 {
						check(s, fmt.Sprintf("%s μ=%v", name, mu), of(mu))
					}
				}
			}
		}
	}
	if most > 40 || longest < 500 || identical < 10 || none < 10 {
		t.Errorf("at most %d evaluations; want 40. The plain climb took up to %d steps; %d are identical, %d have no epsilon", most, longest, identical, none)
	}
}
