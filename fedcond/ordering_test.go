package fedcond

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dataset"
)

// heldOut trains on the first half of a synthetic regression and returns the MSE of the other half.
func heldOut(t *testing.T, s dataset.RegressionShape, o Options, conditioned bool, seed uint64) float64 {
	t.Helper()
	all := regression(t, s, seed)
	n := all.Rows / 2
	half := &dataset.Regression{Rows: n, Cols: all.Cols, X: all.X[:n*all.Cols], Y: all.Y[:n]}
	test := &dataset.Regression{Rows: n, Cols: all.Cols, X: all.X[n*all.Cols:], Y: all.Y[n:]}
	if conditioned {
		o.C = conditioning(t, half)
	}
	return MSE(test, train(t, half, o, seed).Weights)
}

// lemma is the ratio of Lemma 4.13, √(Σ(ŷ_i·σmax/σ_i)²/Σŷ_i²), for σ_i = 1/i: by hand 1, √(Σi²/10) and 10.
var lemma = map[dataset.Alignment]float64{
	dataset.TopLabels: 1, dataset.UniformLabels: math.Sqrt(38.5), dataset.BottomLabels: 10,
}

// Lemma 4.13 compares bounds, so it can hold as an ordering only: the higher its ratio, the more
// conditioning gains, and nothing at the top. Rates are the best of .003, .01, .03, .1, .3 and .9 on
// seeds 101 to 103, which are not those of the test; the spectrum has σ_i = 1/i, and 1,000 steps are
// enough to converge without noise, so that what is compared is noise. Seeds are fixed.
func TestLemmaOrdersGains(t *testing.T) {
	rates := map[dataset.Alignment][2]float64{ // without conditioning and with
		dataset.TopLabels: {.003, .01}, dataset.UniformLabels: {.1, .01}, dataset.BottomLabels: {.1, .01},
	}
	gains := make(map[dataset.Alignment]float64)
	for labels, rate := range rates {
		s := dataset.RegressionShape{Rows: 4000, Cols: 10, Decay: 1, Labels: labels, Noise: .1}
		o := options(.25)
		o.Steps = 1000
		var mse [2]float64
		for seed := range uint64(10) {
			for k := range mse {
				o.Rate = rate[k]
				mse[k] += heldOut(t, s, o, k == 1, 1+seed) / 10
			}
		}
		gains[labels] = mse[0] / mse[1]
		t.Logf("%s: MSE %.4f by dp-sgd, %.4f conditioned; the lemma's ratio is %.1f", labels, mse[0], mse[1], lemma[labels])
	}
	for a, high := range gains {
		for b, low := range gains {
			if lemma[a] > lemma[b] && !(high > low) {
				t.Errorf("conditioning gains %.2f at %s and %.2f at %s; the lemma orders them the other way", high, a, low, b)
			}
		}
	}
	if top := gains[dataset.TopLabels]; top > 1.05 {
		t.Errorf("conditioning gains %.2f where labels lie in the top direction; the lemma says none", top)
	}
}

// Without noise both reach least squares, whose error on other rows is the noise of labels, .1².
func TestWithoutNoiseNothingIsGained(t *testing.T) {
	s := dataset.RegressionShape{Rows: 4000, Cols: 10, Decay: 1, Labels: dataset.BottomLabels, Noise: .1}
	o := options(math.Inf(1))
	o.Steps, o.Rate = 1000, .9
	for _, conditioned := range []bool{false, true} {
		// The mean of 2,000 squares deviates by √(2/2000) = 3%, and ten weights add .5%.
		if mse := heldOut(t, s, o, conditioned, 1); math.Abs(mse-.01) > .0016 {
			t.Errorf("conditioned %v: MSE %v; least squares has .01", conditioned, mse)
		}
	}
}
