package dp

import (
	"math"
	"testing"
)

// δ(ε) of one sample by its definition, integrated. The unit adds 1 in one world and -1 in the
// other, both with the chance q; two vectors of norm at most 1 are at most that far apart. z of
// ForReplacement must meet the budget. It may exceed the least z by no more than the detour over
// the data set between costs: half of z does not meet the budget.
func TestForReplacement(t *testing.T) {
	hockey := func(epsilon, z, q float64) (sum float64) {
		density := func(x, at float64) float64 { return math.Exp(-(x-at)*(x-at)/(2*z*z)) / (z * math.Sqrt(2*math.Pi)) }
		step := z / 2000
		for x := -12*z - 1; x < 12*z+1; x += step {
			none := (1 - q) * density(x, 0)
			sum += step * max(0, none+q*density(x, 1)-math.Exp(epsilon)*(none+q*density(x, -1)))
		}
		return sum
	}
	for _, q := range []float64{1, .2, .01} {
		for _, epsilon := range []float64{.25, 1, 4} {
			b := Budget{Epsilon: epsilon, Delta: 1e-4, Accountant: PLD}
			z, spent, err := NoiseMultiplier(b.ForReplacement(), 1, q)
			if err != nil {
				t.Fatal(err)
			}
			if stated := b.Replaced(spent).Epsilon; stated > epsilon || stated < .999*epsilon {
				t.Errorf("q = %v: ε = %v is stated as %v", q, epsilon, stated)
			}
			if got := hockey(epsilon, z, q); got > b.Delta*(1+1e-6) {
				t.Errorf("q = %v, ε = %v: δ is %v by integration; at most %v is stated", q, epsilon, got, b.Delta)
			}
			if got := hockey(epsilon, z/2, q); got < b.Delta {
				t.Errorf("q = %v, ε = %v: half the noise has δ %v, within %v", q, epsilon, got, b.Delta)
			}
		}
	}
}
