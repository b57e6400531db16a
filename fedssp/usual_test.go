package fedssp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
)

// By hand, on a scale of 0 to 10. The typical mean is 6.5 with a deviation of 0.6. A sum of 20
// places of the scale over 100 ratings says 5 + 5·0.2 = 6. With noise of 12 it has a deviation of
// 5·12/100 = 0.6 too, and the mean is halfway. Without noise the result is the measured mean. With
// noise alone it is nearly the typical mean.
func TestMeanIsHeldToTheUsual(t *testing.T) {
	p := &kernel.Params{Min: 0, Max: 10}
	for _, x := range []struct{ sum, count, noise, want float64 }{
		{20, 100, 12, 6.25}, {20, 100, 0, 6}, {0, 0, 0, 6.5}, {-50, 3, 50, 6.5 - 6.5*0.36/(0.36+25)},
	} {
		if got := serving.HeldMean(p, x.sum, x.count, x.noise); math.Abs(got-x.want) > 1e-12 {
			t.Errorf("the mean of %+v is %v", x, got)
		}
	}
}

// Means of two measurements by the inverse of their variances, by hand: of deviations 2 and 1 the
// second weighs 4/5, and the mean's variance is 4/5, as 1/(1/4 + 1).
func TestMeasurementsAreAveraged(t *testing.T) {
	first, second := serving.NewSum([]float64{1}, 1, 4), serving.NewSum([]float64{4}, 1, 1)
	if x := second.Joined(first); math.Abs(x.Value[0]-3.4) > 1e-15 || math.Abs(1/x.Precision[0]-0.8) > 1e-15 {
		t.Errorf("averaged to %v with precision %v", x.Value, x.Precision)
	}
	if x := second.Joined(nil); x != second {
		t.Errorf("the second alone became %v", x)
	}
}

// 2,000 items have weights whose logarithms are normal. The mean squared error of the shrunk weights
// is below 0.62 of the mean squared error of the released weights, held positive. The stated
// variance is the variance of the errors. The oracle is the drawn truth. Numerical integration of
// its law gives about 0.45 as the best possible ratio for noise as large as the mean weight.
func TestWeightsAreShrunk(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	const m, noise = 2000, 6.
	truth, released := make([]float64, m), make([]float64, m)
	var users float64
	for j := range truth {
		truth[j] = math.Exp(1.1 + 1.2*rng.NormFloat64())
		released[j] = truth[j] + noise*rng.NormFloat64()
		users += truth[j] / 6
	}
	k := serving.Shrink(released, func(int) float64 { return noise }, false, users)
	var before, after, stated float64
	for j, c := range truth {
		before += dense.Sqr(max(released[j], 0) - c)
		after += dense.Sqr(k.Mean[j] - c)
		stated += k.Variance[j]
	}
	if after > 0.62*before {
		t.Errorf("a mean square of %v of the %v before", after/m, before/m)
	}
	if stated < 0.7*after || stated > 1.4*after {
		t.Errorf("errors of %v are said to be %v", after/m, stated/m)
	}
	if k = serving.Shrink([]float64{-1, 2}, nil, true, 1); k.Mean[0] != 0 || k.Mean[1] != 2 || k.Variance[1] != 0 {
		t.Errorf("without noise weights are %+v", k)
	}
}
