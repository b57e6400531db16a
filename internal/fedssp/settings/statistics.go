package settings

import (
	"cmp"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
)

func declareBatches() {
	Keys.SamplingRate = config.DeclareNumber(config.Key{
		Name: "statistics.sampling-rate", Kind: config.Real, Default: "1", Range: config.Above(0, 1), When: When(items),
		Help: "Probability that a user is in the batch of a sum of statistics, by a coin that only its client sees: mini-batches. Epsilon counts on the coin, so a sum needs less noise. Only accountant gdp-skellam covers that.",
		Check: func(c config.Config) string {
			s := Of(c)
			switch {
			case s.form().Name == "" || !s.batched():
			case algorithm.Noise.Is(c, "replace"):
				return "no accountant covers replaced noise of batches; use noise split with batches"
			case algorithm.Accountant.Is(c, string(dp.RDP)):
				return "accountant rdp has nothing for batches of Skellam noise; use gdp-skellam"
			}
			return ""
		},
	})
}

// declareItems declares the ridges on items, and the start of items.
func declareItems() {
	Keys.ItemRidge = Number("statistics.item-ridge", config.AtLeast(0), notPool, "0.01", "Ridge of an item, added to every rating.", Value(0.01))
	Keys.ItemPrior = Number("statistics.item-prior", config.AtLeast(0), notPool, "5 to 20; 0.1 where little can be learned", "How many ratings pull an item to zero.",
		func(s Settings, f *config.Facts) config.Number {
			return config.Fixed(Either(f != nil && s.nearStart(f), 0.1, s.itemPrior()))
		})
	Keys.ItemPrior.Check = config.Against(func(c config.Config) bool {
		return Keys.ItemPrior.Of(c) == config.Fixed(0) && Keys.ItemRidge.Of(c) == config.Fixed(0)
	}, "it is 0, and statistics.item-ridge too: an item with hardly any ratings would have no solution")
	Keys.StartSpread = Number("statistics.start-spread", config.Positive(), func(s Settings) bool { return s.Items() && !s.encodes() }, "0.3", "Standard deviation of the coordinates at the start.", Value(0.3))
}

// declareStatistics declares the form of the solver's sums, and the bounds of a user's
// contribution.
func declareStatistics() {
	Keys.Gramian = Word("statistics.gramian", []string{string(kernel.PerItem), string(kernel.One)}, BySums,
		"one, so that far less is sent and noised; per-item in the papers' algorithms, and with posteriors", "Form of the second-order statistics: one for each item, or a single one for all.",
		func(s Settings, _ *config.Facts) string {
			if !s.Variational() && (s.form().Ours || s.pooled()) {
				return string(kernel.One)
			}
			return string(kernel.PerItem)
		})
	Keys.Growth = Number("statistics.growth", config.Between(0.1, 10), items, "1.4 of ssp-c at an epsilon of 3 or more, 1.2 with posteriors, else 1",
		"Budget of a sum of statistics, relative to the sum before it.", Always(Settings.growth))
	Keys.Resample = count("statistics.resample", config.Between(1, 10_000), func(s Settings) bool { return s.Items() && !s.traits().OneSum }, "1; as many as encoder.steps of ssp-i; 5 of gradients",
		"Secure sums, each with fresh noise, that a round takes of the same statistics, or of gradients.",
		Always(func(s Settings) float64 {
			return Either(s.form().Resampled, s.encoderSteps(), cmp.Or(s.defaults().Resample, 1))
		}))
	Keys.Resample.Check = checkResample
	Keys.ClipUser = Number("statistics.clip-user", Clips(), BySums, "1; 4 without noise; √(rank + 1) with posteriors, 3·√rank without noise; 0.3 of rankings", "Largest norm of a user's embedding in what it sends.", Always(Settings.clipUser))
	// The bound is a star of five. Residuals after biases and mean are seldom larger, and the noise
	// grows with the bound. Without noise the bound matters only if priors are learned: it limits
	// the influence of one rating.
	Keys.ClipRating = Number("statistics.clip-rating", Clips(), func(s Settings) bool {
		return BySums(s) && !s.Implicit() && !s.Loss().Limited
	}, "a quarter of the scale; all of it without noise and with posteriors", "Largest residual of a rating in what a user sends, in stars.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			return Either(s.Private() && !s.Variational() || s.traits().Clips, 0.5, 2) * halfScale(f)
		}))
	Keys.NormItems = longest("norm-items", func(s Settings) bool { return s.Items() && !s.byUser() && (!s.Variational() || s.Private()) }, "an eighth of the scale of our forms, a quarter times clip-user with posteriors; 0 of the papers', without noise, and where no biases come first",
		"Largest norm of everything a user adds to the sums for embeddings of items: a longer vector is scaled down. 0: no bound on the whole.", Settings.normItems)
	Keys.Unobserved = Number("statistics.unobserved", config.Positive(), implicit, "0.1 or 0.2", "Weight of what a user did not rate, with implicit feedback.",
		Always(func(s Settings) float64 { return Either(s.poolsRanks(), 0.2, 0.1) }))
	// A single Gramian sums over all users, so a very small share is enough.
	Keys.ShareGramian = share("gramian", BySums, "0.05 of a single Gramian, 0.3 of one an item", "Part of the statistics' share that is for second-order statistics.",
		Always(func(s Settings) float64 {
			return Either(Keys.Gramian.Chosen(s.Config) == string(kernel.One), 0.05, 0.3)
		}))
}

func checkResample(c config.Config) string {
	s := Of(c)
	if s.form().Name == "" || !c.InRange(Keys.steps.Key) || checkOptimiser(c) != "" {
		return "" // another error says enough
	}
	switch n := Keys.Resample.Chosen(c); {
	case Keys.Optimiser.Is(c, exact), s.Descends(): // checkOptimiser reports it, and every step is one sum
		return ""
	case n > 1 && !s.encodes():
		return fmt.Sprintf("%s solves in closed form here, and takes the statistics of a round once", s.form().Name)
	case n > 1 && n > s.encoderSteps():
		return fmt.Sprintf("%v is above encoder.steps, %v: there is at most one sum for each gradient step", n, s.encoderSteps())
	default:
		return ""
	}
}

// posteriorsBias is the share of μ² for biases that come before posteriors with noise.
const posteriorsBias = 0.2

// maxBiasRounds limits the sums that biases are learned from.
const maxBiasRounds = 100

func declareBiases() {
	Keys.BiasFirst = Word("statistics.bias-first", []string{yes, no}, items, "yes of our forms, with explicit feedback", "Whether private item biases come before the embeddings.",
		func(s Settings, _ *config.Facts) string { return yesIf(s.Biases()) })
	Keys.BiasFirst.Check = config.Against(func(c config.Config) bool {
		return Of(c).Implicit() && Keys.BiasFirst.Is(c, yes) && Of(c).ranked()
	}, "implicit feedback has no scale, and so no biases on it")
	Keys.Priors = Word("statistics.priors", []string{"fixed", "learned"}, func(s Settings) bool { return s.Biases() && !s.pooled() }, "learned",
		"Whether the priors of biases are fixed or learned from the released sums.", func(Settings, *config.Facts) string { return "learned" })
	Keys.PriorStrength = Number("statistics.prior-strength", config.AtLeast(0), func(s Settings) bool { return s.Biases() && s.Learns() }, "100 where V would be noise or weights are, else 0",
		"Weight of public typical values in the learned priors of biases, in items. With 0 typical values also leave the mean and the number of ratings of items alone.",
		ByFacts(func(s Settings, f *config.Facts) float64 { return Either(s.holds(f) || s.sparse(f), 100, 0) }))
	Keys.BiasRounds = count("statistics.bias-rounds", config.Between(1, maxBiasRounds), biased, "2 with noise where items are at most twice the users, else 1",
		"Secure sums that biases are learned from. Later sums use the residuals of earlier ones.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			return Either(s.refines(f) && !Keys.ChooseBy.Is(s.Config, ByWeights), 2, 1)
		}))
	Keys.BiasTilt = Number("statistics.bias-tilt", config.Between(0, 4), Settings.popularity, "0.4 where users weigh popularity and biases are refined, else 0",
		"How much less popular items weigh in later sums of biases: a deviation of the logarithm of an item's weight divides a rating's weight by the exponential of this.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			weighs := s.weights() && !s.global() && algorithm.LeastRatings.Int(s.Config) <= 1 && Keys.PopularityWeight.Or(s.Config, s.popularityWeight(f)) > 0
			return Either(weighs && s.refines(f) && Keys.BiasRounds.Or(s.Config, 2) > 1, 0.4, 0)
		}))
	Keys.ClipBias = Number("statistics.clip-bias", Clips(), biased, "7/16 of the scale, or half of it", "Largest residual of a rating in the sums for biases, in stars.",
		ByFacts(func(s Settings, f *config.Facts) float64 { return Either(s.Learns(), 0.875, 1) * halfScale(f) }))
	// The sum of a user's ratings varies less than a single rating, and the noise grows with the
	// bound.
	Keys.NormBias = longest("norm-bias", biased, "a quarter of the scale, a sixth where little can be learned; 0 without noise",
		"Largest norm of everything a user adds to the sums for biases, in stars: a longer vector is scaled down. 0: only single ratings are clipped.",
		Settings.normBias)
	Keys.UserBiasRidge = Number("statistics.user-bias-ridge", config.Positive(), biased, "5", "Ridge of a user's own bias.", Value(5))
	Keys.BiasRidge = Number("statistics.bias-ridge", config.Positive(), func(s Settings) bool { return s.Biases() && !s.Learns() }, "4", "How many ratings pull a bias to zero, with fixed priors.", Value(4))
	Keys.ShareBias = share("bias", func(s Settings) bool { return s.Biases() && s.Items() }, "0.2 with posteriors, else 0.5 to 0.95, by ε and how many users there are, of a wide catalogue without features by how many for each item", "Share of the budget for item biases.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			switch {
			case s.starved(f):
				return max(1-starvedRest-Keys.ShareMean.Value(s.Config)-Keys.ShareCounts.Value(s.Config), starvedRest)
			case s.noisyPosteriors():
				return posteriorsBias // sums of posteriors learn biases too
			default:
				return biasShare(algorithm.Epsilon.Value(s.Config), f.Users, s.UsersOfBiases(f))
			}
		}))
	Keys.ShareBias.Check = checkShares
	// With a small budget the popularity of items is most of what rankings can learn.
	Keys.ShareWeightCounts = share("weight-counts", func(s Settings) bool { return !s.Popular() && (s.Biases() || !s.byUser()) }, "0.3, 0.1 where little can be learned, 0.6 where items are many beside few users; 0.8 of rankings", "Part of the biases' share, or else of the statistics', that is for how much each item was rated.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			switch {
			case s.starved(f):
				return starvedCounts
			case s.sparse(f):
				return sparseCounts
			default:
				return Either(s.poolsRanks(), 0.8, 0.3)
			}
		}))
}

// popularityWeight is the default for users' weights of popularity.
func (s Settings) popularityWeight(f *config.Facts) float64 {
	return Either(s.Variational(), 0.15, Either(s.Private() && !s.starved(f) && !s.wide(f), 0.1, 0))
}

func checkShares(c config.Config) string {
	sum := 0.
	for _, k := range []config.NumberKey{Keys.ShareCounts, Keys.ShareMean, Keys.ShareBias} {
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

// declareCounts declares the counts and the mean.
func declareCounts() {
	Keys.CountMargin = config.DeclareNumber(config.Key{
		Name: "statistics.count-margin", Kind: config.Real, Default: "0", Range: config.Between(0, 100), When: When(Settings.weighsByCounts),
		Help: "Margin added to the private counts, in deviations of their noise, so that noise which makes a count small gives the item no weight (multi-task, appendix B).",
	})
	Keys.CountCap = count("statistics.count-cap", config.Between(1, 1e6), Settings.counted, "50",
		"Most items that a user is counted at in the private counts.", Value(50))
	Keys.ShareCounts = share("counts", Settings.counted, "0.01", "Share of the budget for private counts.", Value(0.01))
	Keys.MeanCap = count("statistics.mean-cap", config.Between(0, 1e6), explicit, "50",
		"Ratings that a user counts for in the private mean, at most; 0 releases none and takes the middle of the scale.", Value(50))
	// If the budget is small, no user bias makes up for the noise of the mean.
	Keys.ShareMean = share("mean", Settings.averaged, "0.01 to 0.05, more where little can be learned", "Share of the budget for the private mean.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			if s.starved(f) {
				return starvedMean
			}
			if s.Biases() {
				return meanShare(algorithm.Epsilon.Chosen(s.Config), f.Users)
			}
			return Either(s.Scarce(f), 0.03, leastMean)
		}))
}

func declareRanking() {
	Keys.Learn = Word("statistics.learn", []string{embeddings, popularity}, func(s Settings) bool { return s.Implicit() && s.ranked() && s.form().LearnsItems },
		"popularity where rankings have little to learn from, else embeddings",
		"Content of rankings: embeddings of items, or only how popular items are, by private counts.", wordByFacts(Settings.ranksBy))
}

// UserFeatures returns the features that clients weigh for their users; nil: none.
func (s Settings) UserFeatures(f *dataset.ItemFeatures) *kernel.UserFeatures {
	if !s.WeighsFeatures() {
		return nil
	}
	return kernel.NewUserFeatures(f, Keys.UserFeatureWeight.Value(s.Config))
}

// declareUser declares the settings of a user's fit, and of the order of lists.
func declareUser() {
	Keys.UserRidge = Number("statistics.user-ridge", config.Positive(), func(s Settings) bool { return s.Items() && !s.Variational() }, "1 or 2, 3 where gradients are summed, 4 without noise; more at a rank above the default", "Ridge of a user's own fit.",
		Always(func(s Settings) float64 { return s.userRidge() * s.rankPenalty() }))
	Keys.UserFeatureWeight = Number("statistics.user-feature-weight", config.Between(0, 10), Settings.WeighsFeatures, "0.35 of our forms, 0 of the papers'",
		"How strongly users are expected to differ in what they think of public features, which each client fits for itself.",
		Always(func(s Settings) float64 { return Either(s.form().Ours, 0.35*math.Sqrt(s.rankPenalty()), 0) }))
	// With noise 0.1 gains 0.0015 to 0.0025 RMSE on MovieLens latest-small, and loses 0.0005 on
	// synthetic:ml-1m.
	Keys.PopularityWeight = Number("statistics.user-popularity-weight", config.Between(0, 10), Settings.popularity, "0.15 with posteriors, which learn how much users differ; else 0.1 with noise, and 0 where little can be learned and in wide catalogues",
		"How strongly users are expected to differ in what they think of items that many rate, which each client fits for itself.",
		ByFacts(Settings.popularityWeight))
	Keys.OrderWeight = Number("statistics.order-weight", config.Between(0, 1000), Settings.orders, "1 for each quarter of the scale of our forms, 10 of rankings with noise; 0 of rankings without, and of the papers'",
		"Weight of a prediction in the order of lists, in units of the natural logarithm a star. Lists also go by how often items are rated, and by public features of what the user rated. 0: by predictions alone.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			switch {
			case !s.form().Ours && s.form().LearnsItems:
				return 0
			case s.Implicit():
				return Either(s.Private(), rankedWeight, 0) // exact sums tell more than popularity
			default:
				return 2 / halfScale(f)
			}
		}))
}

// orders reports whether lists may be ordered by how often items are rated, which a release tells. The
// papers' forms release it too, and popularity alone has no other order.
func (s Settings) orders() bool {
	return s.Biases() || s.Implicit() && s.form().LearnsItems && !s.byUser()
}

// OrderWeight is the weight of a prediction in the order of lists; 0: predictions alone order them.
func (s Settings) OrderWeight() float64 {
	return Either(s.orders(), Keys.OrderWeight.Value(s.Config), 0)
}

// User returns the settings of what stays with the client. f holds the public features; nil: none.
func (s Settings) User(f *dataset.ItemFeatures) kernel.UserParams {
	c := s.Config
	return kernel.UserParams{
		UserRidge: Keys.UserRidge.Value(c), UserFeatures: s.UserFeatures(f),
		Popularity: Either(s.popularity(), Keys.PopularityWeight.Value(c), 0),
	}
}
