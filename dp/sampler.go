package dp

import "math"

// SamplerError returns the total-variation error of all noise that a run draws: 4·n·L·T·2^-100 for
// n clients, L coordinates per round (all releases together) and T rounds. Each coordinate
// of a client takes two Poisson and two binomial draws with an error of at most 2^-100 each.
// Problem and Budget take the result E as SamplerError, which adds E·(1 + e^ε) to δ. Let P, Q be the exact
// output distributions and P', Q' the drawn ones, each within E of its exact one. Then
// P'(S) <= P(S) + E <= e^ε·Q(S) + δ + E <= e^ε·Q'(S) + δ + E·(1 + e^ε).
func SamplerError(n, L, T int) float64 {
	return math.Ldexp(4*float64(n)*float64(L)*float64(T), -100)
}
