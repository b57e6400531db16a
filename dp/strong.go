package dp

import (
	"fmt"
	"math"
)

// StrongComposition returns the ε that strong composition states for steps releases with Gaussian
// noise of a multiplier, each over a Poisson sample of rate in (0, 1], at a total delta in (0, 1).
// It was the published method before Rényi and moments accountants. It holds, and is several times
// their ε, so it serves claims and never a ledger.
//
// One release without sampling is (ε0, δ0) private by the exact bound of the Gaussian mechanism. A
// sampled release is (log(1 + q(e^ε0 - 1)), q·δ0) private; call its ε ε'. k sampled releases are,
// for any δ' (Dwork, Rothblum and Vadhan 2010, theorem III.3), (ε'√(2k·ln(1/δ')) + kε'(e^ε' - 1),
// kqδ0 + δ') private. Half of δ goes to either part.
func StrongComposition(multiplier, rate float64, steps int, delta float64) (float64, error) {
	if !(multiplier > 0) || !(rate > 0 && rate <= 1) || steps < 1 || !(delta > 0 && delta < 1) {
		return 0, fmt.Errorf("dp: strong composition: %d steps, multiplier %v, rate %v, delta %v; steps must be at least 1, the multiplier positive, rate in (0, 1], delta in (0, 1)",
			steps, multiplier, rate, delta)
	}
	k := float64(steps)
	// δ0 is at most 1/2, also for samples so rare that no δ0 below 1 gives q·δ0 = δ/(2k).
	one, err := Problem{Events: []Event{Gaussian(multiplier)}, Delta: delta / (2 * k * max(rate, delta/k)), Accountant: Exact}.Epsilon()
	if err != nil {
		return 0, err
	}
	sampled := math.Log1p(rate * math.Expm1(one.Epsilon))
	return sampled*math.Sqrt(2*k*math.Log(2/delta)) + k*sampled*math.Expm1(sampled), nil
}

// StrongMultiplier returns the least noise multiplier, to a part in 1e9, with at most the target's
// ε by StrongComposition. It fails if more than 1e9 is needed.
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
