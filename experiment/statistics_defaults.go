package experiment

import (
	"math"

	"github.com/fedsim/fedsim/fedssp"
)

// What auto stands for where users sum statistics. The values were chosen on validation data
// (experiments/README.md), as few as serve all algorithms and both data sets about as well as a choice
// for each would: what ended within .002 of another was left as it was.

// priorSteps is how many iterations of EM learn priors: they settle in fewer.
const priorSteps = 20

// choose is a or, without the condition, b.
func choose(condition bool, a, b float64) float64 {
	if condition {
		return a
	}
	return b
}

// statistics is the section with every auto replaced that has an effect and does not
// follow from the data: the rating scale, and how many users there are. What has none stays
// as it was given.
func (c Config) statistics() Statistics {
	s := c.Statistics
	explicit := !c.implicit()
	pooled := c.solver() == fedssp.Pooled
	if s.BiasFirst == "auto" && !c.biasOnly() {
		s.BiasFirst = yesIf(c.biases(s))
	}
	if s.Priors == "auto" && c.biases(s) && !pooled {
		s.Priors = "learned"
	}
	if s.Gramian == "auto" && !c.biasOnly() {
		// Far less is sent and noised. Algorithms of papers have the papers' form.
		s.Gramian = string(fedssp.PerItem)
		if c.ours() || pooled {
			s.Gramian = string(fedssp.One)
		}
	}
	if s.Budgeting == "auto" {
		s.Budgeting = string(fedssp.Weights)
		if c.Algorithm == DPALS {
			s.Budgeting = string(fedssp.UniformSample)
		}
	}
	set := func(used bool, n *Number, v float64) {
		if used {
			*n = Fixed(n.Or(v))
		}
	}
	weights, private := s.Budgeting == string(fedssp.Weights), c.Private()
	exponent := 0.0 // counts cost more than the weights gain where the biases come first
	if c.Algorithm == AdaDPALS || c.Algorithm == AMSSP {
		exponent = 0.1 // noise makes weights of 1/4 worse than equal ones
	}
	set(weights, &s.Exponent, exponent)
	// Half as many (ICML paper, section 5.1) lose more than their noise costs; without any, all are taken.
	set(!weights, &s.PerUser, choose(private, 100, 1000))
	set(s.counted(), &s.CountCap, 50)
	set(explicit, &s.MeanCap, 50)
	bias, items, ours := c.biases(s), !c.biasOnly(), c.ours()
	ranked := c.poolsRanks()
	set(items, &s.ClipUser, c.clipUser())
	set(items, &s.UserRidge, c.userRidge()*c.crowding())
	set(c.canTaste(), &s.TasteWeight, choose(ours, 0.35*math.Sqrt(c.crowding()), 0))
	set(items && !pooled, &s.ItemRidge, 0.01)
	set(items && !pooled, &s.ItemPrior, c.itemPrior())
	set(items && !c.encodes(), &s.StartSpread, 0.3)
	set(bias && !c.learns(), &s.BiasRidge, 4)
	set(bias, &s.UserBiasRidge, 5)
	set(pooled, &s.Memory, 0.5)
	set(!explicit, &s.Unobserved, choose(ranked, 0.2, 0.1))
	resample := 1.0
	if c.Algorithm == SSPI {
		resample = c.encoderSteps()
	}
	set(items, &s.Resample, resample)
	c.chooseLoss(&s)
	set(s.counted(), &s.Shares.Counts, 0.01)
	set(explicit && s.MeanCap.Value > 0, &s.Shares.Mean, 0.01)
	// What many liked is most of what rankings know where little can be learned.
	set(true, &s.Shares.WeightCounts, choose(ranked, 0.8, 0.3))
	set(items, &s.Shares.Gramian, gramianShare(s.Gramian))
	return s
}

// outerSteps is T. Noise makes late steps dear; without it users and items go on to settle.
func (c Config) outerSteps() int {
	switch {
	case !c.Private():
		return 12
	case c.solver() == fedssp.Pooled:
		return 6 // what is released of one averages with the others
	case c.solver() == fedssp.CMF && c.biases(c.Statistics):
		return 4
	case c.Algorithm == SSPI:
		return 2 // of several sums each
	default:
		return 3
	}
}

// poolsRanks reports whether the solver that learns priors learns rankings, for which no biases come first.
func (c Config) poolsRanks() bool { return c.solver() == fedssp.Pooled && c.implicit() }

// statisticsRank is d: the fewest that are about as good as any. With noise per item few are
// affordable, and learned priors turn ranks that are not needed off.
func (c Config) statisticsRank() float64 {
	switch {
	case c.poolsRanks():
		return 16 // no biases say most of it
	case c.Private() || c.solver() == fedssp.Pooled:
		return 4
	default:
		return 8
	}
}

// clipUser is Γ_u: of implicit feedback, whose targets do not differ, directions say most.
func (c Config) clipUser() float64 {
	switch {
	case c.Private() && c.poolsRanks():
		return 0.3
	case c.Private() || c.solver() == fedssp.Pooled:
		return 1
	default:
		return 4
	}
}

// userRidge is λ_u: without noise what V fits by chance is held back by it alone.
func (c Config) userRidge() float64 {
	switch {
	case !c.Private():
		return 4
	case c.solver() == fedssp.Pooled, c.solver() == fedssp.CMF && c.biases(c.Statistics):
		return 2
	default:
		return 1
	}
}

// crowding is by how much more than at the default rank a user's own fit is held back with learned
// priors, to which a V that says little yet is noise in so many more directions. Tastes, which are as certain
// at any rank, weigh so much more that they are not held back with it.
func (c Config) crowding() float64 {
	if c.solver() != fedssp.Pooled || c.poolsRanks() {
		return 1
	}
	return max(1, float64(c.rank())/c.statisticsRank())
}

// itemPrior is how many ratings pull an item to zero. Noise that is discounted pulls besides, and
// what biases leave is little.
func (c Config) itemPrior() float64 {
	switch {
	case !c.Private():
		return 20
	case !c.biases(c.Statistics):
		return 5
	case c.solver() == fedssp.CMF:
		return 10
	default:
		return 20
	}
}

// encoderSteps is how many gradient steps an encoder takes in an outer step: with fresh
// noise for each, few.
func (c Config) encoderSteps() float64 {
	if c.Algorithm == SSPI {
		return c.Encoder.Steps.Or(c.Statistics.Resample.Or(10))
	}
	return c.Encoder.Steps.Or(100)
}

// chooseLoss replaces the autos of convex losses.
func (c Config) chooseLoss(s *Statistics) {
	if c.solver() != fedssp.Convex {
		return
	}
	if s.Loss == "auto" {
		s.Loss = string(fedssp.Huber) // as good as squares on ratings, and bounded by itself
	}
	if s.Loss == string(fedssp.Huber) {
		s.LossWidth = Fixed(s.LossWidth.Or(1))
	}
}

// biasShare is what biases get of μ²: where few users share a small budget little else can
// be learned. Best on validation data were at ε of 1, 5 and 20 with 6,040 users about .95, .6
// and .5, and at each from .7 to .95 with 610.
func biasShare(epsilon float64, users int) float64 {
	return min(max(0.95-0.215*math.Log(epsilon*float64(users)/6040), 0.5), 0.95)
}

// gramianShare is what second-order statistics get beside the moments: a single Gramian
// sums over everybody, and next to nothing is enough.
func gramianShare(form string) float64 {
	if form == string(fedssp.One) {
		return 0.05
	}
	return 0.3
}

// few reports whether ε times users is too little to learn embeddings of single items from without
// biases before them: less than three times that of ε = 1 and MovieLens 1M's users.
func few(epsilon float64, users int) bool { return epsilon*float64(users) < 3*6040 }

// chooseByNoise replaces the autos that go by how much there is to learn: ε and users.
func (e *Experiment) chooseByNoise() {
	c := &e.Config
	scarce := few(c.Epsilon.Value, e.Data.Users)
	set := func(n *Number, v float64) { *n = Fixed(n.Or(v)) }
	if scarce && !c.implicit() && c.Statistics.MeanCap != Fixed(0) && !c.biases(c.Statistics) {
		set(&c.Statistics.Shares.Mean, 0.03) // no bias of a user's own makes up for the mean's noise
	}
	switch {
	case c.solver() == fedssp.CMF:
		set(&c.CMF.FeatureWeight, choose(scarce, 1, 0.2))
	case c.encodes():
		// Without biases to begin with, V stays near its public start, in which users find tastes
		// for features at no cost, and is not pulled to zero from there.
		near := scarce && !c.biases(c.Statistics) && c.Features != "none"
		if c.Encoder.IDs == "auto" {
			c.Encoder.IDs = yesIf(!near)
		}
		set(&c.Encoder.StartNorm, choose(near, 2, 0.3))
		set(&c.Encoder.Rate, choose(near, 0.001, 0.3/math.Sqrt(c.encoderSteps()))) // fewer steps are longer
		if near {
			set(&c.Statistics.ItemPrior, 0.1)
		}
	}
}
