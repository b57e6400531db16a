package settings

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
)

// Implicit reports whether a rating means that the item was consumed.
func (s Settings) Implicit() bool {
	return algorithm.Feedback.Chosen(s.Config) == string(kernel.Implicit)
}

// Private reports whether the run adds noise.
func (s Settings) Private() bool { return algorithm.Private(s.Config) }

func (s Settings) featureless() bool { return algorithm.FeatureSpec.Is(s.Config, "none") }

// Solver names the server's solver for the items. An item without features is known by its id
// alone. Its encoder is a lookup table, whose optimum has a closed form unless the statistics
// change with every step.
func (s Settings) Solver() string {
	switch f := s.form(); {
	case f.fixed() != nil:
		return f.fixed().String()
	case len(f.Solvers) == 0:
		return NamedALS // without embeddings it is never asked
	case s.variational():
		return NamedVariational
	case s.exact():
		return NamedPooled
	case !s.featureless() || Keys.Resample.Or(s.Config, 1) > 1:
		return NamedEncoded
	default:
		return NamedALS
	}
}

// exact reports whether the encoder's best parameters are solved for.
func (s Settings) exact() bool {
	if s.variational() {
		return true
	}
	switch Keys.Optimiser.Of(s.Config) {
	case exact:
		return true
	case "auto":
		return s.form().has(NamedVariational) && !Keys.Gramian.Is(s.Config, string(kernel.PerItem)) && Keys.Resample.Or(s.Config, 1) == 1
	default:
		return false
	}
}

// pooled reports whether priors of items are learned.
func (s Settings) pooled() bool { return s.Solver() == NamedPooled || s.variational() }

// Learns reports whether priors are learned from the statistics: priors of biases and, with the
// exact encoder, of items.
func (s Settings) Learns() bool {
	return s.pooled() || !Keys.Priors.Is(s.Config, "fixed") && s.Biases()
}

// encodes reports whether items are the output of an encoder.
func (s Settings) encodes() bool {
	return s.Solver() == NamedEncoded || s.Solver() == NamedConvex && !s.featureless() || s.byUser()
}

// Descends reports whether the solver takes steps against sums of gradients. byUser reports whether
// these are gradients of an encoder's parameters. Both hold only for solvers that an algorithm
// fixes.
func (s Settings) Descends() bool {
	x := s.form().fixed()
	return x != nil && !x.SecondOrder()
}

func (s Settings) byUser() bool {
	x := s.form().fixed()
	return x != nil && x.ByUser()
}

// Items reports whether embeddings of items are learned.
func (s Settings) Items() bool { return s.form().LearnsItems && !s.Popular() }

// Popular reports whether the popularity of items is all that rankings learn.
func (s Settings) Popular() bool {
	return s.Implicit() && (!s.form().LearnsItems || Keys.Learn.Is(s.Config, popularity))
}

// Biases reports whether item biases are released first.
func (s Settings) Biases() bool {
	switch {
	case !s.form().LearnsItems:
		return !s.Implicit()
	case !Keys.BiasFirst.Is(s.Config, "auto"):
		return Keys.BiasFirst.Is(s.Config, yes)
	default: // half of what there is to learn is biases, and they need far less noise
		return s.form().Ours && !s.Implicit()
	}
}

// WeighsFeatures reports whether clients may fit weights of public features for their users. The
// data set must have features.
func (s Settings) WeighsFeatures() bool {
	return s.form().Features && !s.featureless() && !s.Implicit()
}

// Drifts reports whether clients fit a drift to their users' ratings.
func (s Settings) Drifts() bool { return !s.Implicit() && Keys.UserDrift.Chosen(s.Config) > 0 }

// WeighsPopularity reports whether clients fit a weight of popularity for their users. Popularity
// must be released with the biases.
func (s Settings) WeighsPopularity() bool {
	return s.popularity() && Keys.PopularityWeight.Chosen(s.Config) > 0
}

// popularity reports whether the settings allow weights of popularity.
func (s Settings) popularity() bool {
	return s.pooled() && s.Items() && s.Biases() && !s.OfSomeItems()
}

func (s Settings) weights() bool { return Keys.Budgeting.Chosen(s.Config) == string(kernel.Weights) }

// counted reports whether item counts are released for weights, samples or the choice of items.
func (s Settings) counted() bool {
	return s.choosesByCounts() || Keys.Budgeting.Chosen(s.Config) == string(kernel.TailSample) || s.weighsByCounts()
}

// weighsByCounts reports whether private counts weigh ratings. The margin is common to all counts:
// it changes the weights, but not the order of items, which chooses items and samples a user's
// tail.
func (s Settings) weighsByCounts() bool {
	return s.weights() && (s.global() || Keys.Exponent.Chosen(s.Config) > 0)
}

// global reports whether one scale of weights serves all users.
func (s Settings) global() bool { return Keys.Normalise.Is(s.Config, string(kernel.GlobalNorm)) }

// averaged reports whether the mean of ratings is released.
func (s Settings) averaged() bool { return !s.Implicit() && Keys.MeanCap.Chosen(s.Config) > 0 }

// chooses reports whether private counts or weights choose the items that are trained on.
func (s Settings) chooses() bool {
	return s.Items() && !s.Descends() && Keys.TopItems.Value(s.Config) > 0
}

// These words name how items are chosen, and the precision of models.
const (
	ByCounts  = "counts"
	ByWeights = "weights"
	Double    = "double"
	Single    = "single"
)

// wideFrom is the number of items above which a catalogue is wide. Then bytes, not time, limit a
// run, and most items have too few ratings to learn an embedding from.
const wideFrom = 20_000

func (s Settings) wide(f *config.Facts) bool { return f.Items > wideFrom }

// Broadcasts reports whether models may have single precision. Models that gradients are taken at
// may not, nor may posteriors.
func (s Settings) Broadcasts() bool { return !s.Descends() && !s.variational() }

// problemOfWeights says why weights cannot choose the items; "" if they can.
func (s Settings) problemOfWeights() string {
	switch {
	case !s.Biases():
		return "no biases come first, which weights are released with; choose by " + ByCounts
	case Keys.BiasRounds.Or(s.Config, 1) > 1:
		return "biases are refined in a second sum; statistics.bias-rounds must be 1"
	case Keys.Budgeting.Chosen(s.Config) == string(kernel.TailSample) || s.weighsByCounts():
		return "private counts are released for weights or samples; choose by " + ByCounts
	default:
		return ""
	}
}

// choosesByCounts reports whether counts are released to choose items by.
func (s Settings) choosesByCounts() bool {
	return s.chooses() && !Keys.ChooseBy.Is(s.Config, ByWeights)
}

// OfSomeItems reports whether only some items are trained on.
func (s Settings) OfSomeItems() bool { return s.chooses() || !Keys.ItemsFile.Is(s.Config, "") }

// variational reports whether users contribute moments of posteriors. They do if the noise allows
// it and no setting needs another solver.
func (s Settings) variational() bool {
	switch {
	case PosteriorsKey.Is(s.Config, yes):
		return s.problemOfPosteriors() == ""
	case PosteriorsKey.Is(s.Config, no):
		return false
	default: // with noise, facts decide: see posteriors
		return !s.Private() && s.problemOfPosteriors() == "" && Keys.Gramian.Is(s.Config, "auto")
	}
}

// Decided settles the choice of posteriors, for keys that are chosen before it.
func (s Settings) Decided(f *config.Facts) Settings {
	return Settings{s.Config.Choose([]*config.Key{PosteriorsKey.Key}, f)}
}

func (s Settings) noisyPosteriors() bool { return s.Private() && s.variational() }

// problemOfPosteriors says why users cannot send moments of posteriors; "" if they can.
func (s Settings) problemOfPosteriors() string {
	switch c := s.Config; {
	case !s.form().has(NamedVariational):
		return "they are of ssp-c"
	case s.Implicit():
		return "they are of explicit feedback"
	case Keys.Gramian.Is(c, string(kernel.One)):
		return "each item has its own; statistics.gramian must be " + string(kernel.PerItem)
	case !Keys.Optimiser.Is(c, "auto") && !Keys.Optimiser.Is(c, exact):
		return "they are solved for; encoder.optimiser must be " + exact
	case Keys.Resample.Or(c, 1) > 1:
		return "a round's statistics are taken once; statistics.resample must be 1"
	case !s.Biases():
		return "biases come first; statistics.bias-first must be yes"
	case !Keys.Budgeting.Is(c, "auto") && !Keys.Budgeting.Is(c, string(kernel.Weights)):
		return "all ratings take part; statistics.budgeting must be " + string(kernel.Weights)
	case Keys.SamplingRate.Or(c, 1) < 1:
		return "all users take part; statistics.sampling-rate must be 1"
	case s.OfSomeItems():
		return "they are of all items; leave out statistics.top-items and statistics.items-file"
	default:
		return ""
	}
}

// batched reports whether each sum covers a random batch of the users.
func (s Settings) batched() bool { return s.Items() && Keys.SamplingRate.Value(s.Config) < 1 }
