package audit

import (
	"math"

	"github.com/fedsim/fedsim/dp"
)

// bestOf is the law of the best of a random number of runs whose likelihood ratios are normal. A run's ratio has deviation mu, and mean
// mu²/2 with the unit or -mu²/2 without. The score of the best tells more, independently, as a normal number whose means are score deviations apart.
type bestOf struct {
	dp.Selection
	mu, score float64
	// first is a ratio: runs below it rank first, the lowest ratio before others. The other runs follow, the highest ratio first.
	first float64
}

// ahead reports whether a run with ratio l ranks before a run with ratio m.
func (b bestOf) ahead(l, m float64) bool {
	if l <= b.first || m <= b.first {
		return l < m
	}
	return l > m
}

// before returns the probability that a run ranks before a run with ratio l, in a world.
func (b bestOf) before(l float64, world int) float64 {
	if l <= b.first {
		return b.below(l, world)
	}
	return b.below(b.first, world) + b.below(-l, 1-world) // the worlds are mirror images
}

// below returns the probability that a run has a ratio of at most l.
func (b bestOf) below(l float64, world int) float64 {
	mean := (float64(world) - 0.5) * b.mu * b.mu
	return math.Erfc((mean-l)/(b.mu*math.Sqrt2)) / 2
}

// loss returns the logarithm of how much likelier a best run with ratio l is with the unit than without.
func (b bestOf) loss(l float64) float64 {
	slope := func(world int) float64 { return math.Log(b.Gamma + (1-b.Gamma)*b.before(l, world)) }
	return l + (1+b.Eta)*(slope(0)-slope(1))
}

// beaten returns the probability that some run ranks among a share p of the best: 1 - f(1-p), with f the probability
// generating function of the number of runs.
func (b bestOf) beaten(p float64) float64 {
	log := math.Log1p((1/b.Gamma - 1) * p)
	if b.Eta == 0 {
		return log / -math.Log(b.Gamma)
	}
	return math.Expm1(-b.Eta*log) / math.Expm1(b.Eta*math.Log(b.Gamma))
}

// scaled returns the law for runs and scores that tell so many times as much.
func (b bestOf) scaled(scale float64) bestOf {
	b.first *= scale // the same share of a normal law's deviation
	b.mu *= scale
	b.score *= scale
	return b
}

// worst chooses the threshold with the largest ε at δ.
func (b bestOf) worst(delta float64) bestOf {
	chosen, most := b, -1.
	for _, deviations := range []float64{-3, -2.5, -2, -1.75, -1.5, -1.25, -1, -0.75, -0.5, -0.25, 0, 0.5} {
		b.first = deviations * b.mu
		if e := b.epsilon(delta); e > most {
			chosen, most = b, e
		}
	}
	return chosen
}

// cells of the ratios of a run, from eight deviations below the lower mean to eight above the higher.
const cells = 600

// epsilon returns the ε at δ of the best run and its score. Ratios fall into cells, so that it errs on the low side.
func (b bestOf) epsilon(delta float64) float64 {
	var losses [cells]float64
	var chance [worlds][cells]float64
	width := (16*b.mu + b.mu*b.mu) / cells
	for i := range cells {
		low := -8*b.mu - b.mu*b.mu/2 + width*float64(i)
		for w := range chance {
			chance[w][i] = max(0, b.within(low, low+width, w))
		}
		losses[i] = math.Log(chance[1][i] / chance[0][i])
	}
	lost := func(epsilon float64) float64 {
		var with, without float64
		for i, l := range losses {
			if !math.IsNaN(l) && !math.IsInf(l, 0) {
				with += chance[1][i] * normalDelta(epsilon-l, b.score)
				without += chance[0][i] * normalDelta(epsilon+l, b.score)
			}
		}
		return max(with, without)
	}
	low, high := 0., 1.
	for lost(high) > delta && high < 1e3 {
		low, high = high, 2*high
	}
	for range 20 {
		if mid := (low + high) / 2; lost(mid) > delta {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// normalDelta is the δ at ε of two normal laws whose means are μ deviations apart, at a negative ε too.
func normalDelta(epsilon, mu float64) float64 {
	if epsilon >= 0 {
		return dp.GaussianDelta(epsilon, mu)
	}
	return -math.Expm1(epsilon) + math.Exp(epsilon)*dp.GaussianDelta(-epsilon, mu)
}

// within returns the probability that the best run has a ratio from low to high.
func (b bestOf) within(low, high float64, world int) float64 {
	switch {
	case high <= b.first:
		return b.beaten(b.below(high, world)) - b.beaten(b.below(low, world))
	case low < b.first: // a cell that holds the threshold
		return b.within(low, b.first, world) + b.within(math.Nextafter(b.first, math.Inf(1)), high, world)
	}
	return b.beaten(b.before(low, world)) - b.beaten(b.before(high, world))
}
