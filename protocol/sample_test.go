package protocol

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dp"
)

// skellamLaw are the probabilities of -n to n, as the convolution of two Poisson laws by their
// definition.
func skellamLaw(variance float64, n int) []float64 {
	poisson := make([]float64, 4*n)
	for k := range poisson {
		g, _ := math.Lgamma(float64(k) + 1)
		poisson[k] = math.Exp(float64(k)*math.Log(variance/2) - variance/2 - g)
	}
	law := make([]float64, 2*n+1)
	for k := range law {
		for j := range poisson {
			if i := j + k - n; i >= 0 && i < len(poisson) {
				law[k] += poisson[i] * poisson[j]
			}
		}
	}
	return law
}

// One coin decides about two releases with different noise. The second is planned after the first
// is seen: it moves by +8 or -8, as the first outcome is even or odd. The privacy loss, in the
// dearer direction and summed over all pairs of outcomes, is at most the charge, and of its order.
// Narrower normals have heavier tails, to 6 times at the last δ here.
func TestOneCoinForTwoVariances(t *testing.T) {
	const n, q, v1, v2, d1, d2 = 120, 0.2, 16., 100., 3, 8
	first, second := skellamLaw(v1, n), skellamLaw(v2, n)
	shown := func(epsilon float64) float64 {
		var removed, added float64
		for i := d1; i < len(first); i++ {
			move := d2
			if i%2 == 1 {
				move = -d2
			}
			for j := d2; j < len(second)-d2; j++ {
				without := first[i] * second[j]
				with := (1-q)*without + q*first[i-d1]*second[j-move]
				removed += max(0, with-math.Exp(epsilon)*without)
				added += max(0, without-math.Exp(epsilon)*with)
			}
		}
		return max(removed, added)
	}
	var s sample
	s.add(Noise{Kind: Split, Variance: v1, SamplingRate: q}, d1, d1)
	s.add(Noise{Kind: Split, Variance: v2, SamplingRate: q}, d2, d2)
	events, err := s.events(nil)
	if err != nil || len(events) != 1 {
		t.Fatalf("charged are %v, %v; want one event", events, err)
	}
	for _, delta := range []float64{0.05, 1e-2, 1e-4, 1e-6} {
		r, err := dp.Problem{Events: events, Delta: delta, Accountant: dp.GDPSkellam}.Epsilon()
		if err != nil || r.Accountant != dp.GDPSkellam {
			t.Fatal(r, err)
		}
		if got := shown(r.Epsilon); !(got <= delta) || got < delta/10 {
			t.Errorf("δ = %v is charged an ε of %v, at which %v is shown", delta, r.Epsilon, got)
		}
	}
}
