package audit

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/lab/internal/binomial"
)

// step is a noised step: with some probability the unit moves normal noise by 1.
type step struct{ noise, rate float64 }

// at returns the rates of an attacker who calls a unit in whose noised number exceeds x, and the logarithm of the
// likelihood ratio there. No attacker gains more than δ = truly - e^ε·falsely at this ε: the lemma of Neyman and Pearson.
func (s step) at(x float64) (epsilon, falsely, truly float64) {
	above := func(x float64) float64 { return math.Erfc(x/s.noise/math.Sqrt2) / 2 }
	falsely, truly = above(x), (1-s.rate)*above(x)+s.rate*above(x-1)
	return math.Log(1 - s.rate + s.rate*math.Exp((x-0.5)/(s.noise*s.noise))), falsely, truly
}

// spends is at, for the x where δ has a value.
func (s step) spends(delta float64) (epsilon, falsely, truly float64) {
	x, _ := binomial.Halve(-10*s.noise, 1+10*s.noise, 60, func(x float64) bool {
		epsilon, falsely, truly := s.at(x)
		return truly-math.Exp(epsilon)*falsely > delta
	})
	return s.at(x)
}

// The best attacker on one step proves the ε of that step, whatever noise is claimed. The rates and the ε are closed
// forms of two normal laws and of their mixture. A price is no higher, and at most 2% lower: noise is found to within
// 0.6%, and that moves these ε by less than 1%. Noise below a quarter of the claim is priced as a quarter of it.
func TestFamilyPricesTheNoiseThatThereIs(t *testing.T) {
	const delta = 1e-5
	for _, c := range []struct {
		step
		claimed, spent float64
	}{
		{step{2, 1}, 1, 0.05}, {step{0.7, 1}, 1, 0.35}, {step{1, 0.5}, 2, 0.05}, {step{0.7, 0.2}, 1, 0.05}, {step{0.2, 1}, 1, 0.35},
	} {
		_, falsely, truly := c.spends(c.spent)
		want, _, _ := step{max(c.noise, c.claimed/4), c.rate}.spends(delta)
		claimed := dp.SubsampledGaussian(c.claimed, c.rate)
		if c.rate == 1 {
			claimed = dp.Gaussian(c.claimed)
		}
		if got := family([]dp.Event{claimed}, delta)(falsely, truly); got < 0.98*want || got > (1+1e-9)*want {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
	}
}

// A search that makes one run, almost surely, tells as much as two normal laws: the run and its score are independent,
// so squares of distances add up. A step has the closed form of such laws. A price is no higher, and at most 2% lower.
func TestSearchOfOneRunIsPricedAsTheRun(t *testing.T) {
	const delta, once = 1e-5, 1 - 1e-9
	for _, scale := range []float64{0.4, 1.7} {
		is := step{1 / scale, 1} // since 0.6² + 0.8² = 1
		_, falsely, truly := is.spends(0.15)
		want, _, _ := is.spends(delta)
		b := bestOf{dp.Selection{Eta: 1, Gamma: once}, 0.6, 0.8, -5}
		if got := b.price(delta)(falsely, truly); got < 0.98*want || got > (1+1e-9)*want {
			t.Errorf("at %v of the scale: %v, want %v", scale, got, want)
		}
	}
}
