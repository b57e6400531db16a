package dp

import (
	"fmt"
	"math"
)

// StrongComposition is the ε that strong composition states of steps releases with Gaussian noise of
// a multiplier, each over a Poisson sample of rate in (0, 1], at a total delta in (0, 1): what was
// published before Rényi and moments accountants. It holds, and is several times what they prove, so
// it serves claims and never a ledger.
//
// One release without sampling is (ε0, δ0) private by the exact bound of the Gaussian mechanism, a
// sampled one (log(1 + q(e^ε0 - 1)), q·δ0), and k of these are, for any δ' (Dwork, Rothblum and Vadhan
// 2010, theorem III.3), (ε'√(2k·ln(1/δ')) + kε'(e^ε' - 1), kqδ0 + δ'). Half of δ goes to either part.
func StrongComposition(multiplier, rate float64, steps int, delta float64) (float64, error) {
	if !(multiplier > 0) || !(rate > 0 && rate <= 1) || steps < 1 || !(delta > 0 && delta < 1) {
		return 0, fmt.Errorf("dp: strong composition of %d steps, multiplier %v, rate %v, delta %v: the first must be at least 1, the multiplier positive, the others above 0 and at most 1",
			steps, multiplier, rate, delta)
	}
	k := float64(steps)
	// δ0 is at most 1/2 even where samples are so rare that q·δ0 is δ/(2k) for none below 1.
	one, err := Problem{Events: []Event{Gaussian(multiplier)}, Delta: delta / (2 * k * max(rate, delta/k)), Accountant: Exact}.Epsilon()
	if err != nil {
		return 0, err
	}
	sampled := math.Log1p(rate * math.Expm1(one.Epsilon))
	return sampled*math.Sqrt(2*k*math.Log(2/delta)) + k*sampled*math.Expm1(sampled), nil
}

// StrongMultiplier is the least noise multiplier, to a part in 1e9, of which StrongComposition states
// at most the target's ε. It fails where more than 1e9 is needed.
func StrongMultiplier(target Budget, steps int, rate float64) (float64, error) {
	low, high := 1e-3, 1e9
	for high/low > 1+1e-9 {
		z := math.Sqrt(low * high)
		e, err := StrongComposition(z, rate, steps, target.Delta)
		if err != nil {
			return 0, err
		}
		if e <= target.Epsilon {
			high = z
		} else {
			low = z
		}
	}
	if high >= 1e9*(1-1e-6) {
		return 0, fmt.Errorf("dp: epsilon %v over %d steps at delta %v needs a noise multiplier beyond 1e9 by strong composition; take a larger epsilon", target.Epsilon, steps, target.Delta)
	}
	return high, nil
}
