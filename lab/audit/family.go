package audit

import (
	"math"

	"github.com/fedsim/fedsim/dp"
)

// familyDeltas lists the δ at which a trade-off is compared with counts. Success with rates of some
// per cent and more shows at large δ.
var familyDeltas = []float64{1e-3, 1e-2, 0.05, 0.15, 0.35, 0.6}

// familySteps of halving an interval of noise multipliers of 16 to 1 place it within 0.6%.
const familySteps = 9

// family prices success against noised steps on samples by the same steps with more noise or
// less. It searches for the most noise with which an attacker could be so successful. The price is the ε of steps
// with that noise, at the δ of the claim, by the tightest accountant (pld). No normal curve has the tails of the
// trade-off curve of such steps. Since pld overstates ε, the bound errs on the low side.
func family(events []dp.Event, delta float64) price {
	costs := map[[2]float64]float64{} // thresholds ask for the same factors again and again
	scaledCost := func(factor, delta float64) float64 {
		key := [2]float64{factor, delta}
		cost, known := costs[key]
		if !known {
			cost = scaledCost(events, factor, delta)
			costs[key] = cost
		}
		return cost
	}
	return func(falsely, truly float64) float64 {
		if truly <= falsely {
			return 0
		}
		possible := func(factor float64) bool {
			for _, d := range familyDeltas {
				if ratio := math.Exp(scaledCost(factor, d)); truly > ratio*falsely+d || 1-falsely > ratio*(1-truly)+d {
					return false
				}
			}
			return true
		}
		lo, hi := math.Log(0.25), math.Log(4.) // of the claimed noise
		for range familySteps {
			if mid := (lo + hi) / 2; possible(math.Exp(mid)) {
				lo = mid
			} else {
				hi = mid
			}
		}
		if lo == math.Log(0.25) {
			return scaledCost(0.25, delta) // or more
		}
		return scaledCost(math.Exp(hi), delta)
	}
}

// scaledCost is the ε at δ of steps with noise multiplied by a factor. Where pld cannot say, it is
// infinite, which disproves nothing.
func scaledCost(events []dp.Event, factor, delta float64) float64 {
	list := make([]dp.Event, len(events))
	for i, ev := range events {
		ev.NoiseMultiplier *= factor
		ev.Variance *= factor * factor
		list[i] = ev
	}
	cost, err := dp.Problem{Events: list, Delta: delta, Accountant: dp.Best}.Epsilon()
	if err != nil {
		return math.Inf(1)
	}
	return cost.Epsilon
}
