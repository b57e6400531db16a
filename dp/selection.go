package dp

import (
	"fmt"
	"math"
	"slices"
)

// Selection is private selection with a random number of runs (Papernot and Steinke, ICLR 2022).
// It draws the number from a law and runs that many times. Each run has a candidate that is drawn uniformly.
// Only the run with the best score is released. Its number of runs has the truncated negative
// binomial law with parameters Eta and Gamma on 1, 2, 3, ...; Eta 1 is the geometric law, Eta 0 the
// logarithmic law.
type Selection struct {
	Eta   float64 `json:"eta"`   // above -1; a larger one has fewer draws that are far below the mean, and costs more
	Gamma float64 `json:"gamma"` // between 0 and 1
}

// Validate reports a law that is none.
func (s Selection) Validate() error {
	if !(s.Eta > -1 && s.Eta <= 100 && s.Gamma > 0 && s.Gamma < 1) {
		return fmt.Errorf("dp: no law of the number of runs with eta %v and gamma %v; eta must be above -1 and at most 100, gamma between 0 and 1", s.Eta, s.Gamma)
	}
	return nil
}

// Runs returns the mean number of runs.
func (s Selection) Runs() float64 {
	if s.Eta == 0 {
		return (1/s.Gamma - 1) / -math.Log(s.Gamma)
	}
	return s.Eta * (1 - s.Gamma) / (s.Gamma * -math.Expm1(s.Eta*math.Log(s.Gamma)))
}

// SelectionOf returns the law of an Eta with a mean number of runs above 1.
func SelectionOf(eta, runs float64) (Selection, error) {
	if !(runs > 1 && runs <= 1e6) {
		return Selection{}, fmt.Errorf("dp: a mean of %v runs; it must be above 1 and at most 1e6", runs)
	}
	low, high := math.Log(1e-300), 0.0 // the mean falls as gamma grows
	for range 200 {
		if mid := (low + high) / 2; (Selection{eta, math.Exp(mid)}).Runs() > runs {
			low = mid
		} else {
			high = mid
		}
	}
	s := Selection{eta, math.Exp(low)}
	return s, s.Validate()
}

// Draw returns the number of runs for a uniform u of [0, 1).
func (s Selection) Draw(u float64) int {
	k, p := 1, 0.0
	switch q := 1 - s.Gamma; s.Eta {
	case 0:
		p = q / -math.Log(s.Gamma)
	default:
		p = s.Eta * q * math.Exp(s.Eta*math.Log(s.Gamma)) / -math.Expm1(s.Eta*math.Log(s.Gamma))
	}
	for u >= p && k < mostRuns {
		u -= p
		p *= (1 - s.Gamma) * (float64(k) + s.Eta) / float64(k+1)
		k++
	}
	return k
}

// mostRuns ends a draw that rounding would not end.
const mostRuns = 1 << 30

// renyi returns the curve of the search. If a run has Rényi divergence D(α) at order α, in both directions, the search has at most
//
//	D(α) + (1+η)·(1-1/β)·D(β) + (1+η)·log(1/γ)/β + log(mean number of runs)/(α-1)
//
// for every order β (theorem 2 of the paper; dp/proofs.md).
func (s Selection) renyi(run renyiCurve) renyiCurve {
	beyond := math.Inf(1)
	for i, beta := range renyiOrders {
		beyond = min(beyond, (1+s.Eta)*((1-1/beta)*run[i]-math.Log(s.Gamma)/beta))
	}
	all := slices.Clone(run)
	for i, alpha := range renyiOrders {
		all[i] += beyond + math.Log(s.Runs())/(alpha-1)
	}
	return all
}

// standInCurve returns the Rényi curve of a run. Skellam events count as the Gaussians that dominate
// them, at all orders; those with too little noise for the theorem count as they are.
func standInCurve(events []Event) (renyiCurve, error) {
	stood := slices.Clone(events)
	for i, e := range stood {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		if e.Dominated() {
			stood[i] = gaussianStandIn(e)
			stood[i].Count = e.Count
		}
	}
	c, err := compose(stood)
	if err != nil {
		return nil, err
	}
	b, err := renyiSum(c)
	if err != nil {
		return nil, err
	}
	return b.(renyiCurve), nil
}
