package audit

import (
	"fmt"
	"math"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
)

// By the definition of the sampled Gaussian mechanism, a watched step moves 1 sensitivity towards the unit in a
// share q of the samples. Its noise has deviation z. So its mean and variance are q and z² + q(1-q) with the unit,
// 0 and z² without. Each must be within five standard errors, which fails once in a million; the seed is fixed.
func TestWatchedStepsReachTheirBound(t *testing.T) {
	n := effort.Of(500, 1000, 4000)
	for _, settings := range []string{
		"algorithm=vfl-sgdmf", "algorithm=vfl-sgdmf clipping=both", "algorithm=vfl-sgdmf clipping=gradient rank=3", "algorithm=vfl-sgdmf unit=user",
		"algorithm=hfl-sgdmf", "algorithm=hfl-sgdmf rank=2 clipping=both", "algorithm=hfl-synsgd",
	} {
		e := open(t, settings+" rounds=3 epsilon=20 accountant=rdp")
		noise := e.Schedule.Noise()
		q, z := noise.SamplingRate, noise.Multiplier
		for kind := range e.Instance().(algorithm.StepWatcher).LocalSteps() {
			for _, full := range []bool{false, true} {
				step, err := e.Instance().(algorithm.StepWatcher).Watch(kind, full, simulated.New(1, fmt.Sprint(settings, kind, full)))
				if err != nil {
					t.Fatal(err)
				}
				var sum, squares float64
				for range n {
					x, err := step()
					if err != nil {
						t.Fatal(err)
					}
					sum, squares = sum+x, squares+x*x
				}
				mean, variance := sum/float64(n), squares/float64(n)-sum/float64(n)*sum/float64(n)
				wantMean, wantVariance := 0., z*z
				if full {
					wantMean, wantVariance = q, z*z+q*(1-q)
				}
				fourth := 3*wantVariance*wantVariance + 1 // at most, with what samples add
				if math.Abs(mean-wantMean) > 5*math.Sqrt(wantVariance/float64(n)) || math.Abs(variance-wantVariance) > 5*math.Sqrt(fourth/float64(n)) {
					t.Errorf("%s, steps of kind %d, full %v: mean %.4f and variance %.4f, want %.4f and %.4f", settings, kind, full, mean, variance, wantMean, wantVariance)
				}
			}
		}
	}
}
