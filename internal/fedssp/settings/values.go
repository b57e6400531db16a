// Package settings says what a configuration means for the family. It has the keys with their ranges
// and defaults, the values of auto, and the decisions that follow from several keys: which solver,
// whether biases come first, how much of the budget a release gets. A range stands in the declaration
// of its key and nowhere else: the checks of stages and solvers read it there.
//
// It imports kernel for the words of settings. It never imports the rooms that compute: user,
// serving, solver, stage. Keys of one solver alone stand in that solver's file.
package settings

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
)

// The values of auto follow. They were chosen on validation data (experiments/results.md): as few
// as serve all algorithms and both data sets about as well as separate choices would. Of values
// within 0.002 RMSE of each other the older one stayed.

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

// rankedWeight is the weight of a score beside popularity in rankings.
const rankedWeight = 10

// TakesDonors reports whether sums have what users with public ratings add, as exact numbers.
func (s Settings) TakesDonors() bool {
	ours := !s.form().LearnsItems || s.form().Ours && algorithm.Of(s.Config).About().Features != algorithm.NeedsFeatures
	return ours && !s.Implicit() && algorithm.StartFrom.Is(s.Config, "") && Keys.Budgeting.Is(s.Config, string(kernel.Weights))
}

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
// settle. If little can be learned of V, one step says it, and more would cost clients bytes for nothing.
// Of ε·users·items, 22 million (synthetic:ml-1m at ε = 1) is little, and 45 million is not: there six
// steps are 0.007 stars better than one.
func (s Settings) OuterSteps(f *config.Facts) float64 {
	switch own := s.defaults(); {
	case own.Rounds > 0:
		return own.Rounds
	case s.Variational():
		return 16
	case !s.Private():
		return 12
	case s.pooled() && (s.holds(f) || f != nil && !s.ManySteps() && s.users(f)*float64(f.Items) < 25e6):
		return 1
	case s.ManySteps():
		return 12
	case s.pooled():
		return 6 // posteriors average the releases of all steps
	case s.form().Resampled:
		return 2 // of several sums each
	default:
		return 3
	}
}

// growth is the ratio of a sum's μ² to the μ² of the sum before. Users' embeddings settle, so later
// statistics say more.
func (s Settings) growth() float64 {
	return Either(s.noisyPosteriors(), 1.2, Either(s.ManySteps(), 1.4, 1))
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
	if !s.Items() || !s.Private() || !s.pooled() || s.Implicit() || s.Variational() {
		return config.Fixed(s.Rank())
	}
	if f == nil {
		return config.Auto
	}
	switch n := s.users(f); {
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
	case s.Variational():
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
	case s.Variational(): // beyond the embeddings of users of unit deviations
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
	switch own := s.defaults(); {
	case own.UserRidge > 0:
		return own.UserRidge
	case !s.Private():
		return 4
	case s.pooled():
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
	switch own := s.defaults(); {
	case own.ItemPrior > 0:
		return own.ItemPrior
	case s.Private() && !s.Biases():
		return 5
	default:
		return 20
	}
}

// encoderSteps is the number of gradient steps an encoder takes in an outer step: few, if each has
// fresh noise.
func (s Settings) encoderSteps() float64 {
	if s.form().Resampled {
		return Keys.steps.Or(s.Config, Keys.Resample.Or(s.Config, 10))
	}
	return Keys.steps.Or(s.Config, 100)
}

// nearStart reports whether V stays near its public start and is not pulled to zero. At the start
// users find weights of features at no cost. It needs a run without biases; in rankings a user's
// few ratings say too little.
func (s Settings) nearStart(f *config.Facts) bool {
	return s.encodes() && !s.Descends() && s.Scarce(f) && !s.Biases() && !s.Featureless() && !s.Implicit()
}

// Settings is a configuration of one of these algorithms with methods for the decisions that follow
// from it. The methods give the same answers before and after every auto is replaced.
type Settings struct{ config.Config }

// Form holds the differences between the algorithms of the family that settings depend on.
type Form struct {
	Name               string   // of the algorithm; "": none of the family
	Solvers            []Solver // the settings choose the last that serves; an only solver always serves
	Features           bool     // the algorithm takes public features
	OnScale            bool     // it takes no implicit feedback
	Ranks, LearnsItems bool     // it takes implicit feedback; it learns embeddings of items. Both follow from the other fields
	Ours               bool     // it departs from every paper
	Sampled            bool     // by default a user sends some of its ratings
	Weighted           bool     // by default ratings of rare items weigh more
	Dense              bool     // the encoder is the paper's: a dense layer, and no embedding for an item's id
	Resampled          bool     // by default every step of the solver uses fresh statistics
	Starts             bool     // a session can start from the sums of earlier sessions
}

// formed is an algorithm of the family.
type formed interface{ FormOf() *Form }

// form returns the form of the algorithm. If the configuration names another package's algorithm it
// returns a form without features, so that no key here has an effect.
func (s Settings) form() *Form {
	if f, ok := algorithm.Of(s.Config).(formed); ok {
		return f.FormOf()
	}
	return &Form{Ranks: true, LearnsItems: true}
}

// Solver is a solver with its answers to the settings. Each solver gives them in its own file.
type Solver interface {
	kernel.Solver
	// Serves reports whether an algorithm with several solvers takes this one.
	Serves(Settings) bool
	// Loss returns facts about the loss of the settings.
	Loss(Settings) Loss
	// Defaults returns the values of auto that the solver chooses itself.
	Defaults(Settings) SolverDefaults
}

// Loss holds facts about the loss of a rating. The zero value describes the squared error.
type Loss struct {
	Limited bool // the loss limits the influence of a rating, so residuals are not clipped
	Logits  bool // predictions are logits
}

// SolverDefaults holds values of auto that differ by solver; 0 leaves a value to the rule of all
// solvers.
type SolverDefaults struct{ Rounds, Resample, UserRidge, ItemPrior, StartNorm, EncoderRate float64 }

// Offers reports whether the settings may choose a solver with a property.
func (f *Form) Offers(property func(kernel.Traits) bool) bool {
	return slices.ContainsFunc(f.Solvers, func(x Solver) bool { return property(x.Traits()) })
}

// fixed returns the algorithm's solver; nil if the settings choose it, or there is none.
func (f *Form) fixed() Solver {
	if len(f.Solvers) == 1 {
		return f.Solvers[0]
	}
	return nil
}

// Of returns the decisions that follow from a configuration.
func Of(c config.Config) Settings { return Settings{c} }

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

// These words name what rankings learn.
const (
	embeddings = "embeddings"
	popularity = "popularity"
)
