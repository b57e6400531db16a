package lab_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/lab/tune"
)

// lawOf returns the probabilities of 1 to most runs by the definition: proportional to
// Γ(k+η)/(k!·Γ(η))·(1-γ)^k, and to (1-γ)^k/k for η = 0.
func lawOf(eta, gamma float64, most int) []float64 {
	law, sum := make([]float64, most+1), 0.0
	for k := 1; k <= most; k++ {
		a, _ := math.Lgamma(float64(k) + eta)
		b, _ := math.Lgamma(float64(k) + 1)
		law[k] = math.Exp(a - b + float64(k)*math.Log1p(-gamma))
		sum += law[k]
	}
	for k := range law {
		law[k] /= sum
	}
	return law
}

// The draws follow from the law as it is defined, and a law is found by its mean.
func TestSelection(t *testing.T) {
	for _, s := range []dp.Selection{{Eta: 1, Gamma: 0.2}, {Eta: 0, Gamma: 0.1}, {Eta: 0.5, Gamma: 0.3}, {Eta: -0.5, Gamma: 0.05}, {Eta: 3, Gamma: 0.4}} {
		law, below := lawOf(s.Eta, s.Gamma, 2000), 0.0
		for k := 1; k < 12; k++ {
			word := uint64((below+law[k]/2)*(1<<53)) << 11 // the draw is the upper 53 bits of a word
			bits := noise.NewBits(bytes.NewReader(binary.LittleEndian.AppendUint64(nil, word)))
			if got := (&tune.Cost{Law: s}).Runs(bits); got != k {
				t.Errorf("%+v: the middle of the probability of %d gives %d", s, k, got)
			}
			below += law[k]
		}
		back, err := tune.SelectionOf(s.Eta, s.Runs())
		if err != nil || math.Abs(back.Gamma-s.Gamma) > 1e-9 {
			t.Errorf("%+v: %+v, %v", s, back, err)
		}
	}
	if _, err := tune.SelectionOf(1, 1); err == nil {
		t.Error("a law with one run in the mean")
	}
}
