package fedssp

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/encoder"
)

// keys are the keys of sufficient statistics.
var keys struct {
	learn, gramian, budgeting, normalise, biasFirst, posteriors, priors, loss                                             config.TextKey
	exponent, headroom, countMargin, perUser, countCap, meanCap, decay, topItems                                          config.NumberKey
	itemsFile, chooseBy, broadcast                                                                                        config.TextKey
	clipUser, clipRating, clipBias, normBias, normItems, growth, biasRounds, priorStrength                                config.NumberKey
	userRidge, userBiasRidge, userFeatureWeight, userDrift, popularityWeight, itemRidge, itemPrior, biasRidge, unobserved config.NumberKey
	resample, samplingRate, startSpread, lossWidth                                                                        config.NumberKey
	shareCounts, shareMean, shareBias, shareWeightCounts, shareGramian                                                    config.NumberKey

	passes, alsRidge, alsShrink config.NumberKey // of ratings in one place

	clipGradient, radius, itemRate, userRate               config.NumberKey
	dense, ids, optimiser, rateDecay, warmStart            config.TextKey
	dim, startNorm, rate, steps, batch, ridge              config.NumberKey
	featureWeight, featureRidge, unobservedFeature, sweeps config.NumberKey
}

// keys are the keys of the algorithm: those of every run with clients, and those of its stages and solvers.
func (f *family) keys() []*config.Key {
	list := slices.Concat(algorithm.Federated(), []*config.Key{algorithm.NoiseDraw.Key, algorithm.Feedback.Key, algorithm.Positive.Key, algorithm.SplitLeast.Key, algorithm.SplitTarget.Key})
	own := slices.Concat(weighingKeys(), []*config.Key{keys.userDrift.Key})
	if f.about.Features != algorithm.NoFeatures {
		list = append(list, algorithm.FeatureSpec.Key)
		own = append(own, keys.userFeatureWeight.Key)
	}
	if f.learnsItems() {
		list = append(list, algorithm.Rounds.Key, algorithm.Rank.Key)
	}
	if f.learnsItems() && f.ranks() {
		own = append(own, keys.learn.Key, keys.unobserved.Key)
	}
	if !slices.ContainsFunc(f.solvers, Solver.descends) {
		own = append(own, keys.broadcast.Key)
	}
	for _, x := range f.stages {
		own = append(own, x.keys()...)
	}
	for _, name := range f.solvers {
		own = append(own, name.side().keys()...)
	}
	return append(list, slices.DeleteFunc(config.Keys(), func(k *config.Key) bool { return !slices.Contains(own, k) })...)
}

// condition is when a key has an effect, with one of these algorithms.
type condition func(settings) bool

func (w condition) when() func(config.Config) bool {
	if w == nil {
		return nil
	}
	return func(c config.Config) bool { return w(settings{c}) }
}

// The commonest conditions.
var (
	items    condition = settings.items
	explicit condition = func(s settings) bool { return !s.implicit() }
	implicit condition = func(s settings) bool { return s.implicit() && s.items() }
	biased   condition = settings.biases
	encoded  condition = settings.encodes
	byCMF    condition = func(s settings) bool { return s.solver() == CMF }
	notPool  condition = func(s settings) bool { return s.items() && !s.pooled() && !s.byUser() }
	bySums   condition = func(s settings) bool { return s.items() && !s.descends() }
	inPasses condition = func(s settings) bool { return s.encodes() && !s.descends() }
)

// number declares a number that is chosen by the other settings where it is open.
func number(name string, r config.Range, when condition, auto, help string, choose func(settings, *config.Facts) config.Number) config.NumberKey {
	k := config.Key{Name: name, Kind: config.Real, Default: "auto", Auto: auto, Range: r, When: when.when(), Help: help}
	k.ChooseNumber = func(c config.Config, f *config.Facts) config.Number { return choose(settings{c}, f) }
	return config.DeclareNumber(k)
}

// count declares a whole number, likewise.
func count(name string, r config.Range, when condition, auto, help string, choose func(settings) float64) config.NumberKey {
	return config.DeclareNumber(config.Key{
		Name: name, Kind: config.Whole, Default: "auto", Auto: auto, Range: r, When: when.when(), Help: help,
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number { return config.Fixed(choose(settings{c})) },
	})
}

// word declares one of several words, likewise.
func word(name string, words []string, when condition, auto, help string, choose func(settings, *config.Facts) string) config.TextKey {
	return config.DeclareText(config.Key{
		Name: name, Kind: config.Word, Default: "auto", Auto: auto, Words: words, When: when.when(), Help: help,
		ChooseWord: func(c config.Config, f *config.Facts) string { return choose(settings{c}, f) },
	})
}

// later declares a number of statistics that there was not at first: before was as if it were the given one.
func later(name string, kind config.Kind, r config.Range, when condition, before, auto, help string, choose func(settings, *config.Facts) config.Number) config.NumberKey {
	k := config.Key{Name: "statistics." + name, Kind: kind, Default: "auto", Auto: auto, Range: r, When: when.when(), Later: true, Before: before, Help: help}
	k.ChooseNumber = func(c config.Config, f *config.Facts) config.Number { return choose(settings{c}, f) }
	return config.DeclareNumber(k)
}

// always chooses without facts.
func always(choose func(settings) float64) func(settings, *config.Facts) config.Number {
	return func(s settings, _ *config.Facts) config.Number { return config.Fixed(choose(s)) }
}

// value chooses one for all.
func value(v float64) func(settings, *config.Facts) config.Number {
	return always(func(settings) float64 { return v })
}

// byFacts chooses once the facts are known.
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

// maxClip is far above all ratings and embeddings, and its inverse far below; variances, in which norms
// are squared twice, stay far from what a float64 holds.
const maxClip = 1e9

func clips() config.Range { return config.Between(1/maxClip, maxClip) }

func declareKeys() {
	declareForm()
	declareBounds()
	declareRidges()
	declareShares()
	declareEncoder()
	declareCMF()
	declareBatches()
	declareChoice()
	declareCentral()
	declareDescent()
}

// declareDescent declares how steps are taken against sums of gradients: see [DescentParams].
func declareDescent() {
	number := func(name string, r config.Range, when condition, auto, help string, choose func(settings) float64) config.NumberKey {
		return config.DeclareNumber(config.Key{
			Name: "gradient." + name, Kind: config.Real, Default: "auto", Auto: auto, Range: r, When: when.when(), Later: true, Help: help,
			ChooseNumber: func(c config.Config, _ *config.Facts) config.Number { return config.Fixed(choose(settings{c})) },
		})
	}
	keys.clipGradient = number("clip", clips(), settings.descends, "0.5; 1 without noise", "Largest norm of a gradient: of each rating by its item, or of all of a user's by the encoder.",
		func(s settings) float64 { return either(s.private(), 0.5, 1) })
	byItems := func(s settings) bool { return s.solver() == Gradient }
	keys.radius = number("radius", clips(), byItems, "1; 0.3 where biases come first, 4 without noise", "Largest norm of an item.",
		func(s settings) float64 {
			switch {
			case !s.private():
				return 4
			case s.biases():
				return 0.3
			default:
				return 1
			}
		})
	keys.itemRate = number("rate", config.Positive(), byItems, "2", "What the steps of items that theory proposes are multiplied by (multi-task, theorem 3.12).", func(settings) float64 { return 2 })
	keys.userRate = number("user-rate", config.Positive(), func(s settings) bool { return s.solver() == Joint }, "1",
		"Learning rate of a user's own embedding, on the mean of its ratings.", func(settings) float64 { return 1 })
}

// declareForm declares what is summed.
func declareForm() {
	keys.learn = config.DeclareText(config.Key{
		Name: "statistics.learn", Kind: config.Word, Default: "auto", Auto: "popularity where rankings have little to learn from, else embeddings", Words: []string{embeddings, popularity},
		When: condition(func(s settings) bool { return s.implicit() && s.ranked() && s.family().learnsItems() }).when(), Later: true, Before: embeddings,
		Help: "What rankings learn: embeddings of items, or only how popular they are, by private counts.",
		ChooseWord: func(c config.Config, f *config.Facts) string {
			if f == nil {
				return "auto"
			}
			return settings{c}.ranksBy(f)
		},
	})
	// Before what follows from it: keys are chosen in this order.
	keys.posteriors = config.DeclareText(config.Key{
		Name: "statistics.posteriors", Kind: config.Word, Default: "auto", Auto: "yes of ssp-c without noise", Words: []string{yes, no}, Later: true, Before: no,
		When:       condition(func(s settings) bool { return s.items() && s.family().has(Variational) && !s.implicit() }).when(),
		Help:       "Whether users send moments of the posteriors of their embeddings, not embeddings as if they were certain, and items have posteriors.",
		ChooseWord: func(c config.Config, _ *config.Facts) string { return yesIf((settings{c}).variational()) },
		Check: func(c config.Config) string {
			if keys.posteriors.Is(c, yes) {
				return (settings{c}).problemOfPosteriors()
			}
			return ""
		},
	})
	keys.gramian = word("statistics.gramian", []string{string(PerItem), string(One)}, bySums,
		"one, by which far less is sent and noised; per-item of the papers' algorithms, and with posteriors", "Form of the second-order statistics: one for each item, or a single one for all.",
		func(s settings, _ *config.Facts) string {
			if !s.variational() && (s.family().ours || s.pooled()) {
				return string(One)
			}
			return string(PerItem)
		})
	keys.budgeting = word("statistics.budgeting", []string{string(Weights), string(UniformSample), string(TailSample)}, nil,
		"weights; uniform of dpals and dpsgd", "How a user's sensitivity is dealt to its ratings: by weights, or to a sample of them.",
		func(s settings, _ *config.Facts) string {
			if s.family().sampled {
				return string(UniformSample)
			}
			return string(Weights)
		})
	// Counts cost more than the weights gain where the biases come first, and noise makes
	// weights of 1/4 worse than equal ones.
	keys.exponent = number("statistics.exponent", config.Between(0, 2), settings.weights, "0; 0.1 of ada-dpals, ada-dpsgd and am-ssp-ids; 0.25 of am-ssp, am-dpsgd and dp-sgd-mf, as published",
		"How much more a rating of a rare item weighs: by the item's private count to the power of minus this.",
		always(func(s settings) float64 {
			if s.family().dense {
				return 0.25
			}
			return either(s.family().weighted, 0.1, 0)
		}))
	keys.normalise = config.DeclareText(config.Key{
		Name: "statistics.normalise", Kind: config.Word, Default: string(PerUserNorm), Words: []string{string(PerUserNorm), string(GlobalNorm)}, Later: true,
		When: condition(settings.weights).when(),
		Help: "What brings weights to the bound of a user: a scale of each user's own, or one for all, beyond which a user's are scaled back (multi-task, (11) and (12)).",
	})
	global := func(s settings) bool { return s.weights() && s.global() }
	keys.headroom = config.DeclareNumber(config.Key{
		Name: "statistics.headroom", Kind: config.Real, Default: "1", Range: config.Between(1e-3, 1e3), Later: true, When: condition(global).when(),
		Help: "By how much the square of an average user's weights stays below the bound with one scale for all: c(n) of the multi-task paper.",
	})
	keys.countMargin = config.DeclareNumber(config.Key{
		Name: "statistics.count-margin", Kind: config.Real, Default: "0", Range: config.Between(0, 100), Later: true, When: condition(settings.counted).when(),
		Help: "How many deviations of their noise are added to the private counts, so that a count that noise makes small does not weigh for it (multi-task, appendix B).",
	})
	// Half as many (multi-task paper, section 5.1) lose more than their noise costs.
	keys.perUser = count("statistics.per-user", config.Between(1, 1e6), func(s settings) bool { return !s.weights() }, "100; 1000 without noise",
		"Most ratings of a user in a sample.", func(s settings) float64 { return either(s.private(), 100, 1000) })
	keys.countCap = count("statistics.count-cap", config.Between(1, 1e6), settings.counted, "50",
		"Most items that a user is counted at in the private counts.", func(settings) float64 { return 50 })
	keys.meanCap = count("statistics.mean-cap", config.Between(0, 1e6), explicit, "50",
		"Ratings that a user counts for in the private mean, at most; 0 releases none and takes the middle of the scale.", func(settings) float64 { return 50 })
	keys.biasFirst = config.DeclareText(config.Key{
		Name: "statistics.bias-first", Kind: config.Word, Default: "auto", Auto: "yes of our forms, with explicit feedback", Words: []string{yes, no}, When: items.when(),
		Help:       "Whether private item biases come before the embeddings.",
		ChooseWord: func(c config.Config, _ *config.Facts) string { return yesIf((settings{c}).biases()) },
		Check: func(c config.Config) string {
			if s := (settings{c}); s.implicit() && keys.biasFirst.Is(c, yes) && s.ranked() {
				return "implicit feedback has no scale, and so no biases on it"
			}
			return ""
		},
	})
	keys.priors = word("statistics.priors", []string{"fixed", "learned"}, func(s settings) bool { return s.biases() && !s.pooled() }, "learned",
		"Whether the priors of biases are fixed or learned from the released sums.", func(settings, *config.Facts) string { return "learned" })
	keys.priorStrength = later("prior-strength", config.Real, config.AtLeast(0), func(s settings) bool { return s.biases() && s.learns() }, "0", "100 where little can be learned, else 0",
		"How many items' worth what is usual of ratings weighs in learned priors of biases; with 0 the mean and how often items are rated are not held to it either.",
		byFacts(func(s settings, f *config.Facts) float64 { return either(s.starved(f), 100, 0) }))
	keys.biasRounds = later("bias-rounds", config.Whole, config.Between(1, maxBiasRounds), biased, "1", "2 where little can be learned, else 1",
		"Secure sums that biases are learned from, the later ones from what is left of ratings.",
		byFacts(func(s settings, f *config.Facts) float64 {
			return either(s.starved(f) && !keys.chooseBy.Is(s.Config, byWeights), 2, 1)
		}))
	keys.decay = number("statistics.decay", config.Below(0, 1), func(s settings) bool { return s.solver() == Pooled }, "0.5; 0.8 of many rounds",
		"How much the statistics of a round before weigh beside those of this one.", always(func(s settings) float64 { return either(s.manySteps(), 0.8, 0.5) }))
	keys.decay.Former = "statistics.memory"
	keys.growth = config.DeclareNumber(config.Key{
		Name: "statistics.growth", Kind: config.Real, Default: "auto", Auto: "1.4 of ssp-c at an epsilon of 3 or more, else 1", Range: config.Between(0.1, 10), When: items.when(), Later: true, Before: "1",
		Help:         "What a sum of statistics has of the budget, beside the sum before it.",
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number { return config.Fixed(settings{c}.growth()) },
	})
	keys.resample = config.DeclareNumber(config.Key{
		Name: "statistics.resample", Kind: config.Whole, Default: "auto", Auto: "1; as many as encoder.steps of ssp-i; 5 of dpsgd, ada-dpsgd and am-dpsgd", Range: config.Between(1, 10_000), When: condition(func(s settings) bool { return s.items() && s.solver() != Joint }).when(),
		Help: "Secure sums, each with fresh noise, that a round takes of the same statistics, or of gradients.",
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number {
			switch s := (settings{c}); {
			case s.family().resampled:
				return config.Fixed(s.encoderSteps())
			case s.descends() && s.solver() != Joint:
				return config.Fixed(5)
			default:
				return config.Fixed(1)
			}
		},
		Check: checkResample,
	})
	keys.loss = word("statistics.loss", []string{string(Squared), string(Huber), string(Logistic)}, func(s settings) bool { return s.solver() == Convex },
		"huber, as good as squares on ratings and bounded by itself", "Loss of ssp-convex.", func(settings, *config.Facts) string { return string(Huber) })
	keys.lossWidth = number("statistics.loss-width", config.Positive(), func(s settings) bool { return s.solver() == Convex && keys.loss.Chosen(s.Config) == string(Huber) }, "1",
		"Residual from which the huber loss grows linearly.", value(1))
}

// ranked reports whether the algorithm is one of these, which feedback means something to.
func (s settings) ranked() bool { return s.family().ranks() && s.family().about.Name != "" }

func checkResample(c config.Config) string {
	s := settings{c}
	if s.family().about.Name == "" || !c.InRange(keys.steps.Key) || checkOptimiser(c) != "" {
		return "" // what else is wrong says enough
	}
	switch n := keys.resample.Chosen(c); {
	case keys.optimiser.Is(c, exact), s.descends(): // checkOptimiser says it, and every step is one
		return ""
	case n > 1 && !s.encodes():
		return fmt.Sprintf("%s solves in closed form here, and takes the statistics of a round once", s.family().about.Name)
	case n > 1 && n > s.encoderSteps():
		return fmt.Sprintf("%v is above encoder.steps, %v: there is a sum for each gradient step at the most", n, s.encoderSteps())
	default:
		return ""
	}
}

// declareBounds declares what bounds a user's contribution.
func declareBounds() {
	keys.clipUser = number("statistics.clip-user", clips(), bySums, "1; 4 without noise, more with posteriors; 0.3 of rankings", "Largest norm of a user's embedding in what it sends.", always(settings.clipUser))
	// A star of five: what biases and mean leave of a rating is seldom more, and the noise grows with
	// it. Without noise it bounds what one rating can do where priors are learned, and else nothing.
	keys.clipRating = number("statistics.clip-rating", clips(), func(s settings) bool {
		return bySums(s) && !s.implicit() && (s.solver() != Convex || keys.loss.Chosen(s.Config) == string(Squared))
	}, "a quarter of the scale; all of it without noise", "Largest residual of a rating in what a user sends, in stars.",
		byFacts(func(s settings, f *config.Facts) float64 {
			return either(s.private() || s.solver() == Pooled, 0.5, 2) * halfScale(f)
		}))
	keys.clipBias = number("statistics.clip-bias", clips(), biased, "7/16 of the scale, or half of it", "Largest residual of a rating in the sums for biases, in stars.",
		byFacts(func(s settings, f *config.Facts) float64 { return either(s.learns(), 0.875, 1) * halfScale(f) }))
	norm := func(name string, when condition, auto, help string, choose func(settings, *config.Facts) float64) config.NumberKey {
		return later(name, config.Real, config.AtLeast(0), when, "0", auto, help, byFacts(choose))
	}
	// What all of a user's ratings come to together varies less than one of them does, and the noise grows with its bound.
	keys.normBias = norm("norm-bias", biased, "a quarter of the scale, a sixth where little can be learned; 0 without noise",
		"Largest norm of all that a user adds to the sums for biases, in stars: a longer one is scaled down. 0: what single ratings are clipped to.",
		settings.normBias)
	keys.normItems = norm("norm-items", func(s settings) bool { return s.items() && !s.byUser() && !s.variational() }, "an eighth of the scale of our forms; 0 of the papers', without noise, and where no biases come first",
		"Largest norm of all that a user adds to the sums for embeddings of items, likewise.", settings.normItems)
}

// declareRidges declares what regularises the solutions.
func declareRidges() {
	keys.userRidge = number("statistics.user-ridge", config.Positive(), func(s settings) bool { return s.items() && !s.variational() }, "1 or 2, 3 where gradients are summed, 4 without noise; more at a rank above the default", "Ridge of a user's own fit.",
		always(func(s settings) float64 { return s.userRidge() * s.rankPenalty() }))
	keys.userBiasRidge = number("statistics.user-bias-ridge", config.Positive(), biased, "5", "Ridge of a user's own bias.", value(5))
	keys.userFeatureWeight = number("statistics.user-feature-weight", config.Between(0, 10), settings.weighsFeatures, "0.35 of our forms, 0 of the papers'",
		"How strongly users are expected to differ in what they think of public features, which each client fits for itself.",
		always(func(s settings) float64 { return either(s.family().ours, 0.35*math.Sqrt(s.rankPenalty()), 0) }))
	keys.userFeatureWeight.Former = "statistics.taste-weight"
	keys.userDrift = later("user-drift", config.Real, config.Between(0, 10), explicit, "0", "0.25 of our forms and of item biases alone, 0 of the papers'",
		"How much a user's ratings are expected to drift from sitting to sitting, as a variance beside that of one rating; which way, each client sees for itself where its data have timestamps.",
		always(settings.userDrift))
	keys.popularityWeight = config.DeclareNumber(config.Key{
		Name: "statistics.user-popularity-weight", Kind: config.Real, Default: "auto", Auto: "0.15 with posteriors, which learn how much users differ; else 0", Range: config.Between(0, 10), When: condition(settings.popularity).when(), Later: true, Before: "0",
		Help: "How strongly users are expected to differ in what they think of items that many rate, which each client fits for itself.",
		// With noise .15 gains .001 to .002 on MovieLens latest-small, and loses .0007 on synthetic:ml-1m.
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number {
			return config.Fixed(either(settings{c}.variational(), 0.15, 0))
		},
	})
	keys.itemRidge = number("statistics.item-ridge", config.AtLeast(0), notPool, "0.01", "Ridge of an item, added to every rating.", value(0.01))
	keys.itemPrior = config.DeclareNumber(config.Key{
		Name: "statistics.item-prior", Kind: config.Real, Default: "auto", Auto: "5 to 20; 0.1 where little can be learned", Range: config.AtLeast(0), When: notPool.when(),
		Help: "How many ratings pull an item to zero.",
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number {
			s := settings{c}
			if f != nil && s.nearStart(f) {
				return config.Fixed(0.1)
			}
			return config.Fixed(s.itemPrior())
		},
		Check: func(c config.Config) string {
			if keys.itemPrior.Of(c) == config.Fixed(0) && keys.itemRidge.Of(c) == config.Fixed(0) {
				return "it is 0, and statistics.item-ridge too: an item that hardly anybody rated would have no solution"
			}
			return ""
		},
	})
	keys.biasRidge = number("statistics.bias-ridge", config.Positive(), func(s settings) bool { return s.biases() && !s.learns() }, "4", "How many ratings pull a bias to zero, with fixed priors.", value(4))
	keys.unobserved = number("statistics.unobserved", config.Positive(), implicit, "0.1 or 0.2", "Weight of what a user did not rate, with implicit feedback.",
		always(func(s settings) float64 { return either(s.poolsRanks(), 0.2, 0.1) }))
	keys.startSpread = number("statistics.start-spread", config.Positive(), func(s settings) bool { return s.items() && !s.encodes() }, "0.3", "Standard deviation of the coordinates at the start.", value(0.3))
}

// declareShares declares how μ² is dealt to the releases: see [Shares].
func declareShares() {
	share := func(name string, when condition, auto, help string, choose func(settings, *config.Facts) config.Number) config.NumberKey {
		return number("statistics.shares."+name, config.Inside(0, 1), when, auto, help, choose)
	}
	keys.shareCounts = share("counts", settings.counted, "0.01", "Share of the budget for private counts.", value(0.01))
	// No bias of a user's own makes up for the mean's noise where little can be learned.
	keys.shareMean = share("mean", settings.averaged, "0.01 to 0.05, more where little can be learned", "Share of the budget for the private mean.",
		byFacts(func(s settings, f *config.Facts) float64 {
			if s.starved(f) {
				return starvedMean
			}
			if s.biases() {
				return meanShare(algorithm.Epsilon.Chosen(s.Config), f.Users)
			}
			return either(s.scarce(f), 0.03, leastMean)
		}))
	keys.shareBias = config.DeclareNumber(config.Key{
		Name: "statistics.shares.bias", Kind: config.Real, Default: "auto", Auto: "0.5 to 0.95, by ε and how many users there are, of a wide catalogue without features by how many for each item", Range: config.Inside(0, 1),
		When: condition(func(s settings) bool { return s.biases() && s.items() }).when(), Help: "Share of the budget for item biases.",
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number {
			if f == nil {
				return config.Auto
			}
			if (settings{c}).starved(f) {
				return config.Fixed(max(1-starvedRest-keys.shareMean.Value(c)-keys.shareCounts.Value(c), starvedRest))
			}
			return config.Fixed(biasShare(algorithm.Epsilon.Value(c), f.Users, settings{c}.usersOfBiases(f)))
		},
		Check: checkShares,
	})
	// What many liked is most of what rankings know where little can be learned.
	keys.shareWeightCounts = share("weight-counts", func(s settings) bool { return !s.popular() && (s.biases() || !s.byUser()) }, "0.3, 0.1 where little can be learned; 0.8 of rankings", "Part of the biases' share, or else of the statistics', that is for how much each item was rated.",
		byFacts(func(s settings, f *config.Facts) float64 {
			return either(s.starved(f), starvedCounts, either(s.poolsRanks(), 0.8, 0.3))
		}))
	keys.shareGramian = share("gramian", bySums, "0.05 of a single Gramian, 0.3 of one an item", "Part of the statistics' share that is for second-order statistics.",
		always(func(s settings) float64 { return gramianShare(keys.gramian.Chosen(s.Config)) }))
}

func checkShares(c config.Config) string {
	sum := 0.
	for _, k := range []config.NumberKey{keys.shareCounts, keys.shareMean, keys.shareBias} {
		if !c.InRange(k.Key) {
			return ""
		}
		sum += k.Value(c)
	}
	if sum >= 1 {
		return fmt.Sprintf("the shares of counts, mean and bias are %v together; the statistics need some of 1", sum)
	}
	return ""
}

// declareEncoder declares the public encoder of items: see [encoder.Settings].
func declareEncoder() {
	plain := func(name, standard string, when condition, words []string, help string) config.TextKey {
		return config.DeclareText(config.Key{Name: "encoder." + name, Kind: config.Word, Default: standard, Words: words, When: when.when(), Help: help})
	}
	keys.dim = config.DeclareNumber(config.Key{
		Name: "encoder.dim", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: encoded.when(), Help: "Length of a feature's embedding; 0 is the rank.", Check: checkDim,
	})
	keys.dense = word("encoder.dense", []string{yes, no}, encoded, "no; yes of am-ssp, am-dpsgd and dp-sgd-mf, as published", "Whether a dense layer is laid on the embeddings: it costs more to learn through noise than it gives.",
		func(s settings, _ *config.Facts) string { return yesIf(s.family().dense) })
	keys.ids = word("encoder.ids", []string{yes, no}, encoded, "yes; no where little can be learned, and of am-ssp, am-dpsgd and dp-sgd-mf, as published", "Whether items have an embedding of their own besides those of their features.",
		func(s settings, f *config.Facts) string {
			if s.family().dense {
				return no
			}
			if f == nil {
				return "auto"
			}
			return yesIf(!s.nearStart(f))
		})
	keys.startNorm = number("encoder.start-norm", config.Positive(), encoded, "0.3; 2 where little can be learned; 0.1 of am-dpsgd and dp-sgd-mf", "Typical norm of an item at the start.",
		byFacts(func(s settings, f *config.Facts) float64 {
			if s.byUser() {
				return 0.1
			}
			return either(s.nearStart(f), 2, 0.3)
		}))
	keys.optimiser = config.DeclareText(config.Key{
		Name: "encoder.optimiser", Kind: config.Word, Default: "auto", Auto: "exact of ssp-c, adam of the others", Words: []string{exact, string(encoder.Adam), string(encoder.SGD)},
		When: condition(func(s settings) bool { return s.encodes() || s.pooled() }).when(),
		Help: "How the encoder is fitted: exact solves for its best parameters.",
		ChooseWord: func(c config.Config, _ *config.Facts) string {
			switch s := (settings{c}); {
			case s.pooled():
				return exact
			case s.encodes():
				return string(encoder.Adam)
			default:
				return "auto"
			}
		},
		Check: checkOptimiser,
	})
	keys.rate = number("encoder.rate", config.Positive(), encoded, "0.3/√encoder.steps; 0.001 where little can be learned; 0.01 of am-dpsgd and dp-sgd-mf", "Learning rate of the encoder.",
		byFacts(func(s settings, f *config.Facts) float64 { // fewer steps are longer
			if s.byUser() {
				return 0.01
			}
			return either(s.nearStart(f), 0.001, 0.3/math.Sqrt(s.encoderSteps()))
		}))
	keys.rateDecay = plain("decay", string(encoder.Cosine), encoded, []string{string(encoder.Constant), string(encoder.Cosine), string(encoder.Linear)}, "How the learning rate falls.")
	keys.steps = count("encoder.steps", config.Between(1, 1e6), inPasses, "100; 10 of ssp-i", "Gradient steps of a round.", settings.encoderSteps)
	keys.batch = config.DeclareNumber(config.Key{
		Name: "encoder.batch", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: inPasses.when(), Help: "Most items of a gradient step; 0 takes all.",
	})
	keys.warmStart = plain("warm-start", yes, inPasses, []string{yes, no}, "Whether a round begins where the last one ended.")
	keys.ridge = config.DeclareNumber(config.Key{
		Name: "encoder.ridge", Kind: config.Real, Default: "0", Range: config.AtLeast(0), When: encoded.when(), Help: "Ridge of the encoder's parameters.",
	})
}

func checkDim(c config.Config) string {
	s := settings{c}
	rank := int(algorithm.Rank.Or(c, s.rank()))
	if dim := keys.dim.Int(c); dim > 0 && keys.dense.Chosen(c) == no && dim != rank {
		return fmt.Sprintf("%d is not the rank %d: embeddings of features are added up where encoder.dense is no", dim, rank)
	}
	return ""
}

func checkOptimiser(c config.Config) string {
	f := settings{c}.family()
	if !keys.optimiser.Is(c, exact) || f.about.Name == "" {
		return ""
	}
	switch {
	case !f.has(Pooled):
		return fmt.Sprintf("%s is for %s", exact, listed(pooledNames()))
	case keys.gramian.Is(c, string(PerItem)) && !(settings{c}).variational():
		return fmt.Sprintf("%s takes statistics.gramian: %s", exact, One)
	case keys.resample.Or(c, 1) > 1:
		return fmt.Sprintf("%s solves for a round's statistics once; statistics.resample must be 1", exact)
	default:
		return ""
	}
}

// listed are words as a sentence lists them.
func listed(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return strings.Join(words, "")
}

// pooledNames are the algorithms whose encoder may be solved for.
func pooledNames() []string {
	var names []string
	for _, a := range algorithm.All() {
		if f, ok := a.(*family); ok && f.has(Pooled) {
			names = append(names, f.about.Name)
		}
	}
	return names
}

// declareCMF declares the factorization of features beside the ratings: see [CMFParams].
func declareCMF() {
	keys.featureWeight = number("cmf.feature-weight", config.Positive(), byCMF, "0.2; 1 where little can be learned", "Weight of a feature beside a rating.",
		byFacts(func(s settings, f *config.Facts) float64 { return either(s.scarce(f), 1, 0.2) }))
	plain := func(name, standard string, r config.Range, help string) config.NumberKey {
		return config.DeclareNumber(config.Key{Name: "cmf." + name, Kind: config.Real, Default: standard, Range: r, When: byCMF.when(), Help: help})
	}
	keys.featureRidge = plain("feature-ridge", "0.1", config.Positive(), "Ridge of a feature's embedding.")
	keys.unobservedFeature = plain("unobserved", "0.1", config.Below(0, 1), "Weight of features that an item does not have.")
	keys.sweeps = config.DeclareNumber(config.Key{
		Name: "cmf.sweeps", Kind: config.Whole, Default: "5", Range: config.AtLeast(1), When: byCMF.when(), Help: "How often features and items take turns in a round.",
	})
}
