package settings

import (
	"cmp"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedssp/kernel"
)

func declareBatches() {
	Keys.SamplingRate = config.DeclareNumber(config.Key{
		Name: "statistics.sampling-rate", Kind: config.Real, Default: "1", Range: config.Above(0, 1), When: items.When(),
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
	Keys.ItemPrior.Check = func(c config.Config) string {
		if Keys.ItemPrior.Of(c) == config.Fixed(0) && Keys.ItemRidge.Of(c) == config.Fixed(0) {
			return "it is 0, and statistics.item-ridge too: an item with hardly any ratings would have no solution"
		}
		return ""
	}
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
