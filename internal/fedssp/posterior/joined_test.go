package posterior

import (
	"math"
	"testing"
)

// Two measurements of a number with the prior N(0, τ²) have the posterior mean (h·y/v + h'·y'/v') / (h²/v + h'²/v' + 1/τ²), and a gain
// that is not above 0 tells nothing.
func TestJoinedMeasurements(t *testing.T) {
	a := Measurements{Value: []float64{3, 1, -2, 5, 4}, Gain: []float64{2, 0, 1, -1, 0}, Variance: []float64{0.5, 1, 4, 1, 1}}
	b := Measurements{Value: []float64{-1, 2, 7, 6, 3}, Gain: []float64{0.3, 5, 0, 2, -4}, Variance: []float64{2, 0.1, 0, 3, 1}}
	const own = 0.7
	d := Design{Start: []int{0, 0, 0, 0, 0, 0}}
	got, _, _, err := EstimateEffects(d, a.Joined(b), Prior{Own: own}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for j, x := range got {
		precision, sum := 1/(own*own), 0.
		for _, m := range []Measurements{a, b} {
			if h := m.Gain[j]; h > 0 {
				precision += h * h / m.Variance[j]
				sum += h * m.Value[j] / m.Variance[j]
			}
		}
		if math.Abs(x-sum/precision) > 1e-12 {
			t.Errorf("item %d: %v, want %v", j, x, sum/precision)
		}
	}
}
