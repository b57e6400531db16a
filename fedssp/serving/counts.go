package serving

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/fedssp/posterior"
	"github.com/fedsim/fedsim/internal/dense"
)

// This file estimates how often items are rated, which orders lists (kernel/order.go). Noise hides the
// weights of all but the popular items. An item with a hidden weight is as popular as its features say.

// These constants belong to the estimate. Logarithms of weights begin with the deviations countsOwn
// around features, countsFeatures of a feature's effect and countsLevel of their mean. A weight of
// countsSure deviations of its noise is taken as it is, apart from its variance. Other weights lie on
// a grid, so many steps wide around the mean weight's logarithm.
const (
	countsOwn      = 1.2
	countsFeatures = 0.5
	countsLevel    = 5
	countsSure     = 6
	countsSteps    = 100
	countsBelow    = 5.
	countsAbove    = 4.5
	countsRounds   = 10
)

// counts returns c_j of all N clients: exponentials of posterior means of log c_j. The prior of log c_j
// is normal, with a mean that the item's features determine. EM learns the effects of features.
func (s *Strategy) counts() []float64 {
	p, n := &s.Params.Params, s.Params.Total()
	released, noise := dense.Scaled(s.Weight, n), s.WeightNoise*n
	if noise == 0 {
		least := math.Inf(1)
		for _, c := range released {
			if c > 0 {
				least = min(least, c)
			}
		}
		for j, c := range released {
			released[j] = max(c, least/2)
		}
		return finite(released)
	}
	columns, group := columns(p)
	design := designOf(p.Features, columns, group, make([]float64, len(released)))
	logs := newLogs(released, noise, n, countsBelow, countsAbove, countsSteps)
	prior := posterior.Prior{Own: countsOwn, Groups: slices.Repeat([]float64{countsFeatures}, design.Groups())}
	prior.Groups[0] = countsLevel
	centre, y := slices.Repeat([]float64{logs.middle}, len(released)), posterior.Measurements{Gain: slices.Repeat([]float64{1}, len(released)), Variance: make([]float64, len(released))}
	deviation := countsOwn
	for round := 0; ; round++ {
		var variance float64
		y.Value, variance = logs.posterior(centre, deviation)
		if round == countsRounds {
			break
		}
		_, effects, learned, err := posterior.EstimateEffects(design, y, prior, 1)
		if err != nil {
			break // the mean of all items is left
		}
		prior, centre = learned, design.Predict(effects)
		deviation = max(math.Hypot(learned.Own, math.Sqrt(variance)), leastRatio)
	}
	for j, l := range y.Value {
		released[j] = math.Exp(l)
	}
	return finite(released)
}

// finite replaces numbers that are not positive and finite by 1. There are none unless all weights
// are 0.
func finite(x []float64) []float64 {
	for j, c := range x {
		if !(c > 0 && c <= math.MaxFloat32) {
			x[j] = 1
		}
	}
	return x
}

// logs holds the weights whose logarithms are estimated.
type logs struct {
	released   []float64
	noise      float64
	middle     float64   // the logarithm of the mean weight
	grid, exps []float64 // logarithms, and their exponentials
}

// newLogs makes a grid of so many steps, from below to above the logarithm of the mean weight. Every user has a total
// weight of at least 1.
func newLogs(released []float64, noise, users, below, above float64, steps int) *logs {
	var total float64
	for _, c := range released {
		total += c
	}
	l := &logs{released: released, noise: noise, middle: math.Log(max(total, users) / float64(len(released)))}
	for g := range steps {
		x := l.middle - below + (below+above)*(float64(g)+0.5)/float64(steps)
		l.grid, l.exps = append(l.grid, x), append(l.exps, math.Exp(x))
	}
	return l
}

// posterior returns the posterior means of all logarithms, given their prior, and the mean of their
// variances.
func (l *logs) posterior(centre []float64, deviation float64) (means []float64, variance float64) {
	means = make([]float64, len(centre))
	mass := make([]float64, countsSteps)
	for j, c := range l.released {
		if c > countsSure*l.noise {
			v := dense.Sqr(l.noise / c)
			part := dense.Sqr(deviation) / (dense.Sqr(deviation) + v)
			means[j] = centre[j] + part*(math.Log(c)-centre[j])
			variance += part * v
			continue
		}
		best := math.Inf(-1)
		for g, x := range l.grid {
			mass[g] = -dense.Sqr((x-centre[j])/deviation)/2 - dense.Sqr((c-l.exps[g])/l.noise)/2
			best = max(best, mass[g])
		}
		var all, first, second float64
		for g, x := range l.grid {
			w := math.Exp(mass[g] - best)
			all, first, second = all+w, first+w*x, second+w*x*x
		}
		means[j] = first / all
		variance += max(second/all-dense.Sqr(means[j]), 0)
	}
	return means, variance / float64(len(means))
}
