package dp

import "math"

// SamplerError is the total-variation error of all noise that a run draws:
// 4·n·L·T·2^-100 for n clients, L coordinates per iteration (all releases
// together) and T iterations, each coordinate of a client taking two Poisson
// and two binomial draws with an error of at most 2^-100 each. It is what
// Problem and Budget take as SamplerError.
func SamplerError(n, L, T int) float64 {
	return math.Ldexp(4*float64(n)*float64(L)*float64(T), -100)
}

// SamplerDelta is what that sampling error adds to δ in a statement at epsilon:
// SamplerError(n, L, T)·(1 + e^epsilon). With P, Q the exact output distributions and P',
// Q' the drawn ones, each within E of its own, P'(S) <= P(S) + E <= e^ε·Q(S) + δ + E <=
// e^ε·Q'(S) + δ + E·(1 + e^ε).
func SamplerDelta(n, L, T int, epsilon float64) float64 {
	return SamplerError(n, L, T) * (1 + math.Exp(epsilon))
}
