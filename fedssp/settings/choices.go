package settings

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
)

// This file holds the values of auto. They were chosen on validation data (docs/results.md): as few
// as serve all algorithms and both data sets about as well as separate choices would. Of values
// within 0.002 RMSE of each other the older one stayed.

// These words name choices that fedsim makes unless the operator does.
const (
	yes = "yes"
	no  = "no"
)

// exact names an encoder whose best parameters are solved for: a linear encoder with an offset for
// each item, and with learned priors ([solver.Pooled]).
const exact = "exact"

// Either returns a, or b if the condition is false.
func Either(condition bool, a, b float64) float64 {
	if condition {
		return a
	}
	return b
}

func yesIf(v bool) string {
	if v {
		return yes
	}
	return no
}

// Implicit reports whether a rating means that the item was consumed.
func (s Settings) Implicit() bool { return algorithm.Feedback.Is(s.Config, string(kernel.Implicit)) }

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

// These words name what rankings learn.
const (
	embeddings = "embeddings"
	popularity = "popularity"
)

// ranksBy chooses what rankings learn if the settings leave it open. Under noise that hides the
// embeddings the popularity of items can still be released, and most accurately with the whole
// budget.
//
// The pooled solver learns priors from features and finds more if items are many and each has few
// ratings. The other solvers need a far larger budget for embeddings. Papers' forms stay as they
// are, and so does a run that names a form of second-order statistics.
func (s Settings) ranksBy(f *config.Facts) string {
	switch {
	case !s.Private() || !s.form().Ours || !Keys.Gramian.Is(s.Config, "auto"), s.pooled() && !s.fewUsers(f), !s.Scarce(f):
		return embeddings
	default:
		return popularity
	}
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

// userDrift is the variance of the drift of a user's ratings. On MovieLens latest-small 0.15 to 0.3
// are about as good.
func (s Settings) userDrift() float64 {
	f := s.form()
	return Either(f.Ours || !f.LearnsItems, 0.25, 0)
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

func (s Settings) weights() bool { return Keys.budgeting.Chosen(s.Config) == string(kernel.Weights) }

// counted reports whether item counts are released for weights, samples or the choice of items.
func (s Settings) counted() bool {
	return s.choosesByCounts() || Keys.budgeting.Chosen(s.Config) == string(kernel.TailSample) || s.weighsByCounts()
}

// weighsByCounts reports whether private counts weigh ratings. The margin is common to all counts:
// it changes the weights, but not the order of items, which chooses items and samples a user's
// tail.
func (s Settings) weighsByCounts() bool {
	return s.weights() && (s.global() || Keys.Exponent.Chosen(s.Config) > 0)
}

// global reports whether one scale of weights serves all users.
func (s Settings) global() bool { return Keys.normalise.Is(s.Config, string(kernel.GlobalNorm)) }

// averaged reports whether the mean of ratings is released.
func (s Settings) averaged() bool { return !s.Implicit() && Keys.MeanCap.Chosen(s.Config) > 0 }

// Sums counts the secure sums that a run attempts.
func (s Settings) Sums() int {
	n := 0
	if s.Popular() {
		n++
	}
	if s.Items() {
		n = int(algorithm.Rounds.Chosen(s.Config)) * int(Keys.Resample.Chosen(s.Config))
	}
	if s.counted() || s.averaged() {
		n++
	}
	if s.Biases() {
		n += max(int(Keys.BiasRounds.Chosen(s.Config)), 1)
	}
	return n
}

// OuterSteps is T. Noise makes late steps expensive; without noise users and items continue to
// settle.
func (s Settings) OuterSteps() float64 {
	switch {
	case s.Solver() == NamedJoint:
		return 50 // of one step each
	case s.Descends():
		return 10 // of several steps each
	case s.variational():
		return 16
	case !s.Private():
		return 12
	case s.ManySteps():
		return 12
	case s.pooled():
		return 6 // posteriors average the releases of all steps
	case s.Solver() == NamedCMF && s.Biases():
		return 4
	case s.form().Resampled:
		return 2 // of several sums each
	default:
		return 3
	}
}

// growth is the ratio of a sum's μ² to the μ² of the sum before. Users' embeddings settle, so later
// statistics say more.
func (s Settings) growth() float64 {
	if s.noisyPosteriors() {
		return 1.2
	}
	return Either(s.ManySteps(), 1.4, 1)
}

// ManySteps reports whether the budget allows outer steps in which users and items settle.
func (s Settings) ManySteps() bool {
	return s.Private() && s.pooled() && !s.Implicit() && algorithm.Epsilon.Chosen(s.Config) >= 3
}

// normBias is the largest norm of a user's addition to the sums for biases.
func (s Settings) normBias(f *config.Facts) float64 {
	switch {
	case !s.Private() || !s.Learns():
		return 0
	case s.starved(f):
		return halfScale(f) / 3 // nearly every user is scaled down to it
	default:
		return 0.5 * halfScale(f)
	}
}

// normItems is the largest norm of a user's addition to moments.
func (s Settings) normItems(f *config.Facts) float64 {
	if s.noisyPosteriors() {
		return 0.5 * halfScale(f) * Keys.ClipUser.Or(s.Config, s.clipUser())
	}
	return Either(s.Private() && s.form().Ours && s.Biases(), 0.25*halfScale(f), 0)
}

// Rank is d, chosen or given.
func (s Settings) Rank() float64 {
	if !s.Items() {
		return 1 // the embeddings stay zero
	}
	return s.fewestRank()
}

// RankOf is d for the given facts. If ε·users is small, all but one or two directions are noise,
// and the Gramian cannot tell which.
func (s Settings) RankOf(f *config.Facts) config.Number {
	if !s.Items() || !s.Private() || !s.pooled() || s.Implicit() || s.variational() {
		return config.Fixed(s.Rank())
	}
	if f == nil {
		return config.Auto
	}
	switch n := algorithm.Epsilon.Chosen(s.Config) * float64(f.Users); {
	case n < 2400:
		return config.Fixed(1)
	case n < 12500:
		return config.Fixed(2)
	default:
		return config.Fixed(s.Rank())
	}
}

// poolsRanks reports whether the solver that learns priors learns rankings. No biases come before
// rankings.
func (s Settings) poolsRanks() bool { return s.pooled() && s.Implicit() }

// fewestRank is the smallest rank that is about as good as any. With noise per item only a small
// rank is affordable. Learned priors turn unneeded ranks off.
func (s Settings) fewestRank() float64 {
	switch {
	case s.poolsRanks():
		return 16 // no biases come first
	case s.variational():
		return 12 // uncertain ranks do no harm
	case s.Private() || s.pooled():
		return 4
	default:
		return 8
	}
}

// clipUser is Γ_u. With implicit feedback all targets are equal, and the direction of u says most.
func (s Settings) clipUser() float64 {
	switch {
	case s.noisyPosteriors(): // E[ggᵀ] has this norm for a user with few ratings, and seldom more than its square
		return math.Sqrt(algorithm.Rank.Or(s.Config, s.Rank()) + 1)
	case s.variational(): // beyond the embeddings of users of unit deviations
		return 3 * math.Sqrt(algorithm.Rank.Or(s.Config, s.Rank()))
	case s.Private() && s.poolsRanks():
		return 0.3
	case s.Private() || s.pooled():
		return 1
	default:
		return 4
	}
}

// userRidge is λ_u. Without noise λ_u alone keeps users from fitting V by chance.
func (s Settings) userRidge() float64 {
	switch {
	case s.Descends():
		return Either(s.Private(), 3, 1)
	case !s.Private():
		return 4
	case s.pooled(), s.Solver() == NamedCMF && s.Biases():
		return 2
	default:
		return 1
	}
}

// rankPenalty is the factor by which a user's own ridge grows above the default rank with learned
// priors. At a higher rank an early V is noise in more directions. Weights of public features are
// equally certain at any rank, so the features grow by the same factor and their weights do not
// shrink.
func (s Settings) rankPenalty() float64 {
	if !s.pooled() || s.poolsRanks() {
		return 1
	}
	return max(1, algorithm.Rank.Or(s.Config, s.Rank())/s.fewestRank())
}

// itemPrior pulls an item to zero with the weight of so many ratings. The discount for noise pulls
// as well, and biases leave little to learn.
func (s Settings) itemPrior() float64 {
	switch {
	case s.Solver() == NamedGradient:
		return 10
	case !s.Private():
		return 20
	case !s.Biases():
		return 5
	case s.Solver() == NamedCMF:
		return 10
	default:
		return 20
	}
}
