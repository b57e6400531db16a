package settings

import (
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// posteriorsBias is the share of μ² for biases that come before posteriors with noise.
const posteriorsBias = 0.2

// maxBiasRounds limits the sums that biases are learned from.
const maxBiasRounds = 100

func declareBiases() {
	Keys.BiasFirst = Word("statistics.bias-first", []string{yes, no}, items, "yes of our forms, with explicit feedback", "Whether private item biases come before the embeddings.",
		func(s Settings, _ *config.Facts) string { return yesIf(s.Biases()) })
	Keys.BiasFirst.Check = func(c config.Config) string {
		if s := Of(c); s.Implicit() && Keys.BiasFirst.Is(c, yes) && s.ranked() {
			return "implicit feedback has no scale, and so no biases on it"
		}
		return ""
	}
	Keys.Priors = Word("statistics.priors", []string{"fixed", "learned"}, func(s Settings) bool { return s.Biases() && !s.pooled() }, "learned",
		"Whether the priors of biases are fixed or learned from the released sums.", func(Settings, *config.Facts) string { return "learned" })
	Keys.PriorStrength = Number("statistics.prior-strength", config.AtLeast(0), func(s Settings) bool { return s.Biases() && s.Learns() }, "100 where V would be noise, else 0",
		"Weight of public typical values in the learned priors of biases, in items. With 0 typical values also leave the mean and the number of ratings of items alone.",
		ByFacts(func(s Settings, f *config.Facts) float64 { return Either(s.holds(f), 100, 0) }))
	Keys.BiasRounds = count("statistics.bias-rounds", config.Between(1, maxBiasRounds), biased, "2 with noise where items are at most twice the users, else 1",
		"Secure sums that biases are learned from. Later sums use the residuals of earlier ones.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			return Either(s.refines(f) && !Keys.ChooseBy.Is(s.Config, ByWeights), 2, 1)
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
	Keys.ShareWeightCounts = share("weight-counts", func(s Settings) bool { return !s.Popular() && (s.Biases() || !s.byUser()) }, "0.3, 0.1 where little can be learned; 0.8 of rankings", "Part of the biases' share, or else of the statistics', that is for how much each item was rated.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			return Either(s.starved(f), starvedCounts, Either(s.poolsRanks(), 0.8, 0.3))
		}))
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
		Name: "statistics.count-margin", Kind: config.Real, Default: "0", Range: config.Between(0, 100), When: condition(Settings.weighsByCounts).When(),
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
