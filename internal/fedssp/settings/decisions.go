package settings

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
)

// Implicit reports whether a rating means that the item was consumed.
func (s Settings) Implicit() bool {
	return algorithm.Feedback.Chosen(s.Config) == string(kernel.Implicit)
}

// Private reports whether the run adds noise.
func (s Settings) Private() bool { return algorithm.Private(s.Config) }

// TakesFeatures reports whether the run has public features, if its data set has.
func (s Settings) TakesFeatures() bool { return s.form().Features && !s.Featureless() }

// Featureless reports whether items have no public features.
func (s Settings) Featureless() bool { return algorithm.FeatureSpec.Is(s.Config, "none") }

// Solver returns the server's solver for the items; nil without embeddings.
func (s Settings) Solver() Solver {
	f := s.form()
	if x := f.fixed(); x != nil {
		return x
	}
	for _, x := range slices.Backward(f.Solvers) {
		if x.Serves(s) {
			return x
		}
	}
	return nil
}

// asked returns what a solver says; the zero value without one.
func asked[T any](x Solver, what func(Solver) T) (said T) {
	if x != nil {
		said = what(x)
	}
	return said
}

func traitsOf(x Solver) kernel.Traits { return asked(x, Solver.Traits) }

func (s Settings) traits() kernel.Traits { return traitsOf(s.Solver()) }

// Loss returns facts about the loss of a rating.
func (s Settings) Loss() Loss { return asked(s.Solver(), func(x Solver) Loss { return x.Loss(s) }) }

// defaults returns the values of auto that the solver chooses itself.
func (s Settings) defaults() SolverDefaults {
	return asked(s.Solver(), func(x Solver) SolverDefaults { return x.Defaults(s) })
}

// With is the condition that a solver is taken.
func With(x kernel.Solver) func(Settings) bool {
	return func(s Settings) bool { return s.Solver() == x }
}

// PrefersExact reports whether the encoder's best parameters are solved for if an algorithm can.
func (s Settings) PrefersExact() bool {
	switch Keys.Optimiser.Of(s.Config) {
	case exact:
		return true
	case "auto":
		return s.form().Offers(withPosteriors) && !Keys.Gramian.Is(s.Config, string(kernel.PerItem)) && Keys.Resample.Or(s.Config, 1) == 1
	default:
		return false
	}
}

// pooled reports whether priors of items are learned.
func (s Settings) pooled() bool { return s.traits().Learns }

// Learns reports whether priors are learned from the statistics: priors of biases and, with the
// exact encoder, of items.
func (s Settings) Learns() bool {
	return s.pooled() || !Keys.Priors.Is(s.Config, "fixed") && s.Biases()
}

// encodes reports whether items are the output of an encoder.
func (s Settings) encodes() bool { return s.traits().Encodes && !s.traits().Table }

// Descends reports whether the solver takes steps against sums of gradients. byUser reports whether
// these are gradients of an encoder's parameters. Both hold only for solvers that an algorithm
// fixes.
func (s Settings) Descends() bool { return traitsOf(s.form().fixed()).FirstOrder }

func (s Settings) byUser() bool { return traitsOf(s.form().fixed()).ByUser }

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
	return s.form().Features && !s.Featureless() && !s.Implicit()
}

// popularity reports whether the settings allow weights of popularity.
func (s Settings) popularity() bool {
	return s.pooled() && s.Items() && s.Biases() && !s.Chooses()
}

func (s Settings) weights() bool { return Keys.Budgeting.Chosen(s.Config) == string(kernel.Weights) }

// counted reports whether item counts are released for weights, samples or the choice of items.
func (s Settings) counted() bool {
	chooses := s.Chooses() && !Keys.ChooseBy.Is(s.Config, ByWeights)
	return chooses || Keys.Budgeting.Chosen(s.Config) == string(kernel.TailSample) || s.weighsByCounts()
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

// Chooses reports whether only some items are trained on, which private counts or weights choose.
func (s Settings) Chooses() bool {
	return s.Items() && !s.Descends() && Keys.TopItems.Value(s.Config) > 0
}

// These words name how items are chosen.
const (
	ByCounts  = "counts"
	ByWeights = "weights"
)

// wideFrom is the number of items above which a catalogue is wide. Then bytes, not time, limit a
// run, and most items have too few ratings to learn an embedding from.
const wideFrom = 20_000

func (s Settings) wide(f *config.Facts) bool { return f.Items > wideFrom }

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

// batched reports whether each sum covers a random batch of the users.
func (s Settings) batched() bool { return s.Items() && Keys.SamplingRate.Value(s.Config) < 1 }

// biasShare is the biases' share of μ². If few users share a small budget, biases are most of what
// can be learned. On validation data with 6,040 users the best shares at ε of 1, 5 and 20 were
// about 0.95, 0.6 and 0.5. With 610 users 0.7 to 0.95 were best at each ε.
//
// For a wide catalogue without features, users are counted as if it were not wide. In
// synthetic:libimseti-20000, with 168,791 items of 14 ratings each, the budget of statistics is
// better spent on biases.
func biasShare(epsilon float64, users int, of float64) float64 {
	return min(max(0.95-0.215*math.Log(epsilon*of/6040), 0.5), 0.95) - (meanShare(epsilon, users) - leastMean)
}

// leastMean and mostMean bound the mean's share of μ².
const (
	leastMean = 0.01
	mostMean  = 0.05
)

// meanShare is the mean's share of μ² if biases follow. Its noise should move the mean by about
// 0.05 stars on a scale of five, if the budget reaches that far. The predictions of users with few
// ratings are close to the mean.
func meanShare(epsilon float64, users int) float64 {
	return min(max(leastMean*dense.Sqr(2640/(epsilon*float64(users))), leastMean), mostMean)
}

// users is ε·users: the budget that the users of a run share.
func (s Settings) users(f *config.Facts) float64 {
	return algorithm.Epsilon.Chosen(s.Config) * float64(f.Users)
}

// Scarce reports whether ε·users is too small to learn embeddings of single items without biases
// before them: less than three times MovieLens 1M's users at ε = 1.
func (s Settings) Scarce(f *config.Facts) bool { return s.users(f) < 3*6040 }

// fewUsers reports whether ε·users is small and items are not many beside the users.
func (s Settings) fewUsers(f *config.Facts) bool { return s.users(f) < 5000 && f.Items <= 2*f.Users }

// refines reports whether biases are refined in a second sum. If items are many beside users,
// features say most about an item, and a second sum of half the budget costs more than it says. In
// a wide catalogue weights choose the items after one sum, unless the budget is small.
func (s Settings) refines(f *config.Facts) bool {
	return s.Private() && s.Biases() && s.Learns() && !s.Variational() && f != nil && f.Items <= 2*f.Users && (!s.wide(f) || s.fewUsers(f))
}

// starved reports whether the budget hardly suffices for biases alone: ε·users is below MovieLens
// 1M's at ε = 1.
func (s Settings) starved(f *config.Facts) bool { return s.refines(f) && s.fewUsers(f) }

// holds reports whether public typical values hold the priors, and V near zero. A few hundred items
// say too little about the deviation of V, and EM takes noise for it. On synthetic:small V costs
// 0.016 and 0.004 RMSE at ε = 10 and 20. On synthetic:ml-1m it gains 0.004 at ε = 2, which is 12,080
// for ε·users.
func (s Settings) holds(f *config.Facts) bool {
	return s.starved(f) || s.refines(f) && s.users(f) <= 20_000 && s.users(f)*float64(f.Items) < 15e6
}

// sparse reports whether items are many beside few users with a small budget, as in MovieLens latest-small at an ε of 1 or 2.
// Most weights are then noise. Public typical values hold the priors, and most of the biases' budget goes to weights:
// RMSE falls by 0.004 and 0.002 there (ε = 1 and 2, seeds 101 to 106). At ε = 5 it would rise by 0.001.
func (s Settings) sparse(f *config.Facts) bool {
	return s.Private() && s.Biases() && s.Learns() && !s.Variational() && f != nil && f.Items > 2*f.Users && s.users(f) < 1500
}

// sparseCounts is the weights' part of the biases' share in a sparse run.
const sparseCounts = 0.6

// These shares are for a starved run: biases get all except the mean's share and a last bit. Weight
// counts are drawn to their own law and need little.
const (
	starvedMean   = 0.02
	starvedRest   = 0.005 // of statistics
	starvedCounts = 0.1
)
