package dp

import (
	"fmt"
	"math"
	"testing"
)

// sampledHockeyStick returns the divergence at e^epsilon between two laws of one coordinate. In one
// the unit, which moves the coordinate by d, is in by a coin of chance q; in the other its record
// is empty. It is a sum over outcomes, by definition.
func (t skellamTable) sampledHockeyStick(dir direction, d int, q, epsilon float64) float64 {
	n, sum := len(t.p)-1, 0.0
	for k := d - n; k <= n; k++ {
		ratio := 1 - q + q*math.Exp(t.loss(k-d, d)) // of the mixture to the law without the unit
		if dir == removed {
			sum += t.p[max(k, -k)] * max(0, ratio-math.Exp(epsilon))
		} else {
			sum += t.p[max(k, -k)] * max(0, 1-math.Exp(epsilon)*ratio)
		}
	}
	return sum
}

// A sampled Skellam event is charged as a mixture of two normals. The divergence of the mixture is
// nowhere below the event's: in both directions, and at negative ε too, which compositions depend
// on. Skellam's side is a sum of probabilities from a recurrence, the normal side a closed form by
// erfc.
func TestSampledSkellamIsDominated(t *testing.T) {
	for _, v := range []float64{MinGaussianVariance, 30, 1e3} {
		sigma := math.Sqrt(v)
		table := newSkellamTable(v, int(30*sigma+200))
		for _, d := range []int{1, int(sigma), int(3 * sigma)} {
			for _, q := range []float64{0.01, 0.2, 0.7} {
				t.Run(fmt.Sprintf("V=%g d=%d q=%g", v, d, q), func(t *testing.T) {
					charged := gaussianStandIn(SubsampledSkellam(v, float64(d), float64(d), q))
					if charged.Mechanism != SubsampledGaussianMechanism || charged.SamplingRate != q {
						t.Fatalf("charged as %+v", charged)
					}
					normal := mixture{charged.NoiseMultiplier, q}
					for dir := range directions {
						low, high := 0.9*math.Log1p(-q), math.Log1p(q*math.Expm1(4*float64(d)/sigma))
						if dir == added { // losses are at most -log(1-q), and as low as the others are high
							low, high = -high, -low
						}
						const levels = 30
						for i := range levels {
							epsilon := low + (high-low)*float64(i)/(levels-1)
							got, bound := table.sampledHockeyStick(dir, d, q, epsilon), normal.delta(dir, epsilon)
							// Far below 0 both are nearly 1 - e^ε; the sums have 12 digits.
							if !(got <= bound*(1+1e-12)) {
								t.Errorf("direction %d, ε = %v: δ = %.17g is above the %.17g that is charged", dir, epsilon, got, bound)
							}
						}
						if got, bound := table.sampledHockeyStick(dir, d, q, 0), normal.delta(dir, 0); got < 0.93*bound {
							t.Errorf("direction %d, ε = 0: δ = %v is far below the %v that is charged", dir, got, bound)
						}
					}
				})
			}
		}
	}
}
