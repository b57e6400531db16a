package dp

import (
	"math"
	"testing"
)

// strongOracle computes strong composition from the closed form of the Gaussian mechanism's δ
// (Balle and Wang 2018, theorem 8), solved for ε by bisection.
func strongOracle(z, q float64, k int, delta float64) float64 {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	low, high := 0., 50.
	for range 200 {
		e := (low + high) / 2
		if phi(1/(2*z)-e*z)-math.Exp(e)*phi(-1/(2*z)-e*z) > delta/(2*float64(k)*q) {
			low = e
		} else {
			high = e
		}
	}
	e := math.Log(1 + q*(math.Exp(high)-1))
	return e*math.Sqrt(2*float64(k)*math.Log(2/delta)) + float64(k)*e*(math.Exp(e)-1)
}

// Strong composition equals its formula, and is never less than the tight accountant's ε.
func TestStrongComposition(t *testing.T) {
	for _, c := range []struct {
		z, q, delta float64
		k           int
	}{{1, 0.01, 1e-5, 1000}, {5, 0.05, 1e-6, 1000}, {2, 1, 1e-5, 10}, {20, 0.05, 1e-5, 300}} {
		got, err := StrongComposition(c.z, c.q, c.k, c.delta)
		if want := strongOracle(c.z, c.q, c.k, c.delta); err != nil || math.Abs(got-want) > 1e-6*want {
			t.Errorf("%+v: %v, %v; want %v", c, got, err, want)
		}
		event := SubsampledGaussian(c.z, c.q)
		if c.q == 1 {
			event = Gaussian(c.z)
		}
		tight, err := Problem{Events: []Event{event.Times(c.k)}, Delta: c.delta, Accountant: PLD}.Epsilon()
		if err != nil || got < tight.Epsilon {
			t.Errorf("%+v: %v, and pld proves %v, %v", c, got, tight.Epsilon, err)
		}
		z, err := StrongMultiplier(Budget{Epsilon: got, Delta: c.delta}, c.k, c.q)
		if err != nil || math.Abs(z-c.z) > 1e-6*c.z {
			t.Errorf("%+v: the multiplier for %v is %v, %v", c, got, z, err)
		}
	}
	for _, c := range [][3]float64{{0, 0.1, 1e-5}, {1, 0, 1e-5}, {1, 1.1, 1e-5}, {1, 0.1, 1}, {math.NaN(), 0.1, 1e-5}} {
		if _, err := StrongComposition(c[0], c[1], 1, c[2]); err == nil {
			t.Errorf("%v was accepted", c)
		}
	}
	if _, err := StrongMultiplier(Budget{Epsilon: 1e-12, Delta: 1e-12}, 1000, 1); err == nil {
		t.Error("a budget that no multiplier reaches was met")
	}
}
