package fedssp

import (
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// keys holds the keys of sufficient statistics.
var keys struct {
	learn, gramian, budgeting, normalise, biasFirst, priors                                                               config.TextKey
	exponent, headroom, countMargin, perUser, countCap, meanCap, topItems                                                 config.NumberKey
	itemsFile, chooseBy, broadcast                                                                                        config.TextKey
	clipUser, clipRating, clipBias, normBias, normItems, growth, biasRounds, priorStrength                                config.NumberKey
	userRidge, userBiasRidge, userFeatureWeight, userDrift, popularityWeight, itemRidge, itemPrior, biasRidge, unobserved config.NumberKey
	resample, samplingRate, startSpread                                                                                   config.NumberKey
	shareCounts, shareMean, shareBias, shareWeightCounts, shareGramian                                                    config.NumberKey

	passes, alsRidge, alsShrink config.NumberKey // of ratings in one place

	dense, ids, optimiser, rateDecay, warmStart config.TextKey
	dim, startNorm, rate, steps, batch, ridge   config.NumberKey
}

// keys returns the keys of every run with clients, and the keys of the algorithm's stages and
// solvers.
func (f *family) keys() []*config.Key {
	list := slices.Concat(algorithm.Federated(), []*config.Key{algorithm.NoiseDraw.Key})
	own := slices.Concat(weighingKeys(), []*config.Key{keys.userDrift.Key})
	if f.about.Features != algorithm.NoFeatures {
		list = append(list, algorithm.FeatureSpec.Key)
		own = append(own, keys.userFeatureWeight.Key)
	}
	if f.form.learnsItems {
		list = append(list, algorithm.Rounds.Key, algorithm.Rank.Key)
	}
	if f.form.ranks {
		list = append(list, algorithm.Feedback.Key, algorithm.Positive.Key, algorithm.SplitLeast.Key, algorithm.SplitTarget.Key)
	}
	if f.form.learnsItems && f.form.ranks {
		own = append(own, keys.learn.Key, keys.unobserved.Key)
	}
	if !slices.ContainsFunc(f.form.solvers, func(x Solver) bool { return !x.secondOrder() }) {
		own = append(own, keys.broadcast.Key)
	}
	for _, x := range f.stages {
		own = append(own, x.keys()...)
	}
	for _, x := range f.form.solvers {
		own = append(own, x.(side).keys()...)
	}
	return append(list, slices.DeleteFunc(config.Keys(), func(k *config.Key) bool { return !slices.Contains(own, k) })...)
}

// condition reports whether a key has an effect with one of these algorithms.
type condition func(settings) bool

func (w condition) when() func(config.Config) bool {
	if w == nil {
		return nil
	}
	return func(c config.Config) bool { return w(settings{c}) }
}

// These are the commonest conditions.
var (
	items    condition = settings.items
	explicit condition = func(s settings) bool { return !s.implicit() }
	implicit condition = func(s settings) bool { return s.implicit() && s.items() }
	biased   condition = settings.biases
	encoded  condition = settings.encodes
	byCMF    condition = func(s settings) bool { return s.solver() == namedCMF }
	notPool  condition = func(s settings) bool { return s.items() && !s.pooled() && !s.byUser() }
	bySums   condition = func(s settings) bool { return s.items() && !s.descends() }
	inPasses condition = func(s settings) bool { return s.encodes() && !s.descends() }
)

// number declares a number. If it is left open, choose sets it from the other settings and the
// facts.
func number(name string, r config.Range, when condition, auto, help string, choose func(settings, *config.Facts) config.Number) config.NumberKey {
	return openNumber(name, config.Real, r, when, auto, help, choose)
}

// count declares a whole number. If it is left open, choose sets it from the other settings and the
// facts.
func count(name string, r config.Range, when condition, auto, help string, choose func(settings, *config.Facts) config.Number) config.NumberKey {
	return openNumber(name, config.Whole, r, when, auto, help, choose)
}

func openNumber(name string, kind config.Kind, r config.Range, when condition, auto, help string, choose func(settings, *config.Facts) config.Number) config.NumberKey {
	return config.DeclareNumber(config.Key{
		Name: name, Kind: kind, Default: "auto", Auto: auto, Range: r, When: when.when(), Help: help,
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number { return choose(settings{c}, f) },
	})
}

// word declares a key with one of several words. If it is left open, choose sets it from the other
// settings and the facts.
func word(name string, words []string, when condition, auto, help string, choose func(settings, *config.Facts) string) config.TextKey {
	return config.DeclareText(config.Key{
		Name: name, Kind: config.Word, Default: "auto", Auto: auto, Words: words, When: when.when(), Help: help,
		ChooseWord: func(c config.Config, f *config.Facts) string { return choose(settings{c}, f) },
	})
}

// always adapts a choice that needs no facts.
func always(choose func(settings) float64) func(settings, *config.Facts) config.Number {
	return func(s settings, _ *config.Facts) config.Number { return config.Fixed(choose(s)) }
}

// value always chooses the given number.
func value(v float64) func(settings, *config.Facts) config.Number {
	return always(func(settings) float64 { return v })
}

// byFacts makes a choice that waits until the facts are known.
func byFacts(choose func(settings, *config.Facts) float64) func(settings, *config.Facts) config.Number {
	return func(s settings, f *config.Facts) config.Number {
		if f == nil {
			return config.Auto
		}
		return config.Fixed(choose(s, f))
	}
}

// halfScale is half the rating scale.
func halfScale(f *config.Facts) float64 { return (f.Max - f.Min) / 2 }

// maxClip is far above all ratings and embeddings, and its inverse far below. Variances square
// norms twice, and still stay far from overflow of a float64.
const maxClip = 1e9

func clips() config.Range { return config.Between(1/maxClip, maxClip) }

func declareKeys() {
	declareRanking()
	declarePosteriors()
	declareStatistics()
	declareWeighing()
	declareCounts()
	declareMean()
	declareBiases()
	declareUser()
	declareItems()
	declarePooled()
	declareConvex()
	declareEncoder()
	declareCMF()
	declareBatches()
	declareChoice()
	declareCentral()
	declareDescent()
	declareGradient()
	declareJoint()
}

// share declares a share of μ²: see [BudgetSplit].
func share(name string, when condition, auto, help string, choose func(settings, *config.Facts) config.Number) config.NumberKey {
	return number("statistics.shares."+name, config.Inside(0, 1), when, auto, help, choose)
}

// longest declares the largest norm of all that a user adds to sums. The norm varies less than a
// rating does, and the noise grows with it.
func longest(name string, when condition, auto, help string, choose func(settings, *config.Facts) float64) config.NumberKey {
	return number("statistics."+name, config.AtLeast(0), when, auto, help, byFacts(choose))
}

// ranked reports whether the algorithm is one of this package's that take feedback into account.
func (s settings) ranked() bool { return s.form().ranks && s.form().name != "" }
