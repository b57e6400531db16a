package audit

import (
	"math"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/lab/internal/binomial"
)

// pull holds the way of a release or a noised step towards the unit: in sensitivities, with noise of the stated deviation.
type pull struct {
	x, deviation float64
	chance       float64 // of the unit to be in it; 1 if it always is
}

// measured sums up the pulls of pairs of runs, one in each world, that drew the same noise. A pull without the unit is
// noise alone. The difference of a pair is the unit's, without noise.
type measured struct {
	squares float64 // of the noise, in stated deviations
	count   int
	shift   float64 // the least that the unit moved a release that it was in
	chances float64 // the sum of the stated chances of the unit, in draws that are not certain
	draws   int
	moved   int  // draws that the unit was in
	apart   bool // the runs of some pair had noise of their own
}

// rounded is a difference that rounding makes.
const rounded = 1e-2

// add adds a pair.
func (m *measured) add(pair *[worlds]view) {
	empty, full := pair[0].pulls, pair[1].pulls
	m.apart = m.apart || len(empty) != len(full)
	for k := range min(len(empty), len(full)) {
		a, b := empty[k], full[k]
		m.squares += a.x * a.x / (a.deviation * a.deviation)
		m.count++
		d := b.x - a.x
		there := d > 0.5
		m.apart = m.apart || !there && math.Abs(d) > rounded
		if there && (m.shift == 0 || d < m.shift) {
			m.shift = d
		}
		if a.chance < 1 {
			m.draws++
			m.chances += a.chance
			if there {
				m.moved++
			}
		}
	}
	pair[0].pulls, pair[1].pulls = nil, nil
}

// epsilon returns the ε at δ of steps with the noise, the shift and the chance that were measured: by bounds which are
// wrong with probability wrong, and by the estimates. It assumes normal noise, as the claim does. 0 where the pairs cannot say.
func (m *measured) epsilon(events []dp.Event, delta, wrong float64) (bound, point float64) {
	if m.apart || m.shift == 0 || m.count < fewest {
		return 0, 0
	}
	n := float64(m.count)
	variance := m.squares / n
	// The quantile of chi-squared by Wilson and Hilferty, which is within 1e-4 of it for such counts.
	root := 1 - 2/(9*n) + quantile(wrong/2)*math.Sqrt(2/(9*n))
	most := variance / (root * root * root)
	rate, least := 1., 1.
	if m.draws > 0 {
		rate = float64(m.moved) / m.chances
		least = binomial.Lower(m.moved, m.draws, wrong/2) * float64(m.draws) / m.chances
	}
	return rescaled(events, math.Sqrt(most)/m.shift, least, delta), rescaled(events, math.Sqrt(variance)/m.shift, rate, delta)
}

// rescaled is the ε at δ of steps with noise and chances of samples multiplied by factors. Where pld cannot say, it is 0,
// which disproves nothing.
func rescaled(events []dp.Event, noise, chance, delta float64) float64 {
	list := make([]dp.Event, len(events))
	for i, ev := range events {
		if ev.Mechanism.Sampled() {
			ev.SamplingRate = min(1, ev.SamplingRate*chance)
		}
		list[i] = ev
	}
	if cost := scaledCost(list, noise, delta); !math.IsInf(cost, 1) {
		return cost
	}
	return 0
}
