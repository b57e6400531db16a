package fedssp

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
)

// This file holds the values of auto. They were chosen on validation data (docs/results.md): as few
// as serve all algorithms and both data sets about as well as separate choices would. Of values
// within 0.002 RMSE of each other the older one stayed.

// priorSteps is the number of EM iterations that learn priors. They settle in fewer.
const priorSteps = 20

// These words name choices that fedsim makes unless the operator does.
const (
	yes = "yes"
	no  = "no"
)

// exact names an encoder whose best parameters are solved for: a linear encoder with an offset for
// each item, and with learned priors ([Pooled]).
const exact = "exact"

// either returns a, or b if the condition is false.
func either(condition bool, a, b float64) float64 {
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

// settings is a configuration of one of these algorithms with methods for the decisions that follow
// from it. The methods give the same answers before and after every auto is replaced.
type settings struct{ config.Config }

// form holds the differences between the algorithms of the family that settings depend on.
type form struct {
	name               string   // of the algorithm; "": none of the family
	solvers            []Solver // the solvers that the settings may choose
	features           bool     // the algorithm takes public features
	ranks, learnsItems bool     // it takes implicit feedback; it learns embeddings of items
	ours               bool     // it departs from every paper
	sampled            bool     // by default a user sends some of its ratings
	weighted           bool     // by default ratings of rare items weigh more
	dense              bool     // the encoder is the paper's: a dense layer, and no embedding for an item's id
	resampled          bool     // by default every step of the solver uses fresh statistics
}

// formed is an algorithm of the family.
type formed interface{ formOf() *form }

// form returns the form of the algorithm. If the configuration names another package's algorithm it
// returns a form without features, so that no key here has an effect.
func (s settings) form() *form {
	if f, ok := algorithm.Of(s.Config).(formed); ok {
		return f.formOf()
	}
	return &form{ranks: true, learnsItems: true}
}

// has reports whether the settings may choose the solver of a name.
func (f *form) has(name string) bool {
	return slices.ContainsFunc(f.solvers, func(x Solver) bool { return x.String() == name })
}

// fixed returns the algorithm's solver; nil if the settings choose it, or there is none.
func (f *form) fixed() Solver {
	if len(f.solvers) == 1 {
		return f.solvers[0]
	}
	return nil
}

// These names of solvers stand in conditions of other settings.
const (
	namedALS         = "als"
	namedPooled      = "pooled"
	namedVariational = "variational"
	namedCMF         = "cmf"
	namedEncoded     = "encoder"
	namedConvex      = "convex"
	namedGradient    = "gradient"
	namedJoint       = "joint"
)

// implicit reports whether a rating means that the item was consumed.
func (s settings) implicit() bool { return algorithm.Feedback.Is(s.Config, string(Implicit)) }

func (s settings) private() bool { return algorithm.Private(s.Config) }

func (s settings) featureless() bool { return algorithm.FeatureSpec.Is(s.Config, "none") }

// solver names the server's solver for the items. An item without features is known by its id
// alone. Its encoder is a lookup table, whose optimum has a closed form unless the statistics
// change with every step.
func (s settings) solver() string {
	switch f := s.form(); {
	case f.fixed() != nil:
		return f.fixed().String()
	case len(f.solvers) == 0:
		return namedALS // without embeddings it is never asked
	case s.variational():
		return namedVariational
	case s.exact():
		return namedPooled
	case !s.featureless() || keys.resample.Or(s.Config, 1) > 1:
		return namedEncoded
	default:
		return namedALS
	}
}

// variational reports whether users contribute moments of posteriors. They do if the noise allows
// it and no setting needs another solver.
func (s settings) variational() bool {
	switch {
	case posteriorsKey.Is(s.Config, yes):
		return s.problemOfPosteriors() == ""
	case posteriorsKey.Is(s.Config, no):
		return false
	default: // with noise, facts decide: see posteriors
		return !s.private() && s.problemOfPosteriors() == "" && keys.gramian.Is(s.Config, "auto")
	}
}

// decided settles the choice of posteriors, for keys that are chosen before it.
func (s settings) decided(f *config.Facts) settings {
	return settings{s.Config.Choose([]*config.Key{posteriorsKey.Key}, f)}
}

func (s settings) noisyPosteriors() bool { return s.private() && s.variational() }

// Posteriors are worth their noise from leastSignal on, and their bytes from leastEpsilon on.
//
// The variance of the noise in an item's sums is inversely proportional to μ², about 2ε, and
// proportional to the number of a user's ratings that count in full. An average item has
// users/items times as many ratings. So ε·users/items is, up to a constant, the ratio of an average
// item's sum to the variance of its noise, and it is public.
//
// On validation data of MovieLens latest-small posteriors gain 0.011 RMSE at 630 and lose 0.003 at
// 190. On synthetic:ml-1m they gain 0.003 at 1630 and lose 0.010 at 490. On the 600 users of
// synthetic:small they lose 0.005 at 1950 and gain 0.002 at 3000.
const (
	leastSignal  = 3000
	leastEpsilon = 100
)

// posteriors chooses whether users send moments of posteriors, if the settings leave it open.
func (s settings) posteriors(f *config.Facts) string {
	switch {
	case !s.private():
		return yesIf(s.variational())
	case s.problemOfPosteriors() != "" || !keys.gramian.Is(s.Config, "auto"):
		return no
	case f == nil:
		return "auto"
	}
	epsilon := algorithm.Epsilon.Chosen(s.Config)
	return yesIf(epsilon >= leastEpsilon && epsilon*float64(f.Users) >= leastSignal*float64(f.Items) && !s.wide(f))
}

// problemOfPosteriors says why users cannot send moments of posteriors; "" if they can.
func (s settings) problemOfPosteriors() string {
	switch c := s.Config; {
	case !s.form().has(namedVariational):
		return "they are of ssp-c"
	case s.implicit():
		return "they are of explicit feedback"
	case keys.gramian.Is(c, string(One)):
		return "each item has its own; statistics.gramian must be " + string(PerItem)
	case !keys.optimiser.Is(c, "auto") && !keys.optimiser.Is(c, exact):
		return "they are solved for; encoder.optimiser must be " + exact
	case keys.resample.Or(c, 1) > 1:
		return "a round's statistics are taken once; statistics.resample must be 1"
	case !s.biases():
		return "biases come first; statistics.bias-first must be yes"
	case !keys.budgeting.Is(c, "auto") && !keys.budgeting.Is(c, string(Weights)):
		return "all ratings take part; statistics.budgeting must be " + string(Weights)
	case keys.samplingRate.Or(c, 1) < 1:
		return "all users take part; statistics.sampling-rate must be 1"
	case s.ofSomeItems():
		return "they are of all items; leave out statistics.top-items and statistics.items-file"
	default:
		return ""
	}
}

// exact reports whether the encoder's best parameters are solved for.
func (s settings) exact() bool {
	if s.variational() {
		return true
	}
	switch keys.optimiser.Of(s.Config) {
	case exact:
		return true
	case "auto":
		return s.form().has(namedVariational) && !keys.gramian.Is(s.Config, string(PerItem)) && keys.resample.Or(s.Config, 1) == 1
	default:
		return false
	}
}

// pooled reports whether priors of items are learned.
func (s settings) pooled() bool { return s.solver() == namedPooled || s.variational() }

// learns reports whether priors are learned from the statistics: priors of biases and, with the
// exact encoder, of items.
func (s settings) learns() bool {
	return s.pooled() || !keys.priors.Is(s.Config, "fixed") && s.biases()
}

// encodes reports whether items are the output of an encoder.
func (s settings) encodes() bool {
	return s.solver() == namedEncoded || s.solver() == namedConvex && !s.featureless() || s.byUser()
}

// descends reports whether the solver takes steps against sums of gradients. byUser reports whether
// these are gradients of an encoder's parameters. Both hold only for solvers that an algorithm
// fixes.
func (s settings) descends() bool {
	x := s.form().fixed()
	return x != nil && !x.secondOrder()
}

func (s settings) byUser() bool {
	x := s.form().fixed()
	return x != nil && x.byUser()
}

// items reports whether embeddings of items are learned.
func (s settings) items() bool { return s.form().learnsItems && !s.popular() }

// popular reports whether the popularity of items is all that rankings learn.
func (s settings) popular() bool {
	return s.implicit() && (!s.form().learnsItems || keys.learn.Is(s.Config, popularity))
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
func (s settings) ranksBy(f *config.Facts) string {
	switch {
	case !s.private() || !s.form().ours || !keys.gramian.Is(s.Config, "auto"), s.pooled() && !s.fewUsers(f), !s.scarce(f):
		return embeddings
	default:
		return popularity
	}
}

// biases reports whether item biases are released first.
func (s settings) biases() bool {
	switch {
	case !s.form().learnsItems:
		return !s.implicit()
	case !keys.biasFirst.Is(s.Config, "auto"):
		return keys.biasFirst.Is(s.Config, yes)
	default: // half of what there is to learn is biases, and they need far less noise
		return s.form().ours && !s.implicit()
	}
}

// weighsFeatures reports whether clients may fit weights of public features for their users. The
// data set must have features.
func (s settings) weighsFeatures() bool {
	return s.form().features && !s.featureless() && !s.implicit()
}

// userDrift is the variance of the drift of a user's ratings. On MovieLens latest-small 0.15 to 0.3
// are about as good.
func (s settings) userDrift() float64 {
	f := s.form()
	return either(f.ours || !f.learnsItems, 0.25, 0)
}

// drifts reports whether clients fit a drift to their users' ratings.
func (s settings) drifts() bool { return !s.implicit() && keys.userDrift.Chosen(s.Config) > 0 }

// weighsPopularity reports whether clients fit a weight of popularity for their users. Popularity
// must be released with the biases.
func (s settings) weighsPopularity() bool {
	return s.popularity() && keys.popularityWeight.Chosen(s.Config) > 0
}

// popularity reports whether the settings allow weights of popularity.
func (s settings) popularity() bool {
	return s.pooled() && s.items() && s.biases() && !s.ofSomeItems()
}

func (s settings) weights() bool { return keys.budgeting.Chosen(s.Config) == string(Weights) }

// counted reports whether item counts are released for weights, samples or the choice of items.
func (s settings) counted() bool {
	return s.choosesByCounts() || keys.budgeting.Chosen(s.Config) == string(TailSample) || s.weighsByCounts()
}

// weighsByCounts reports whether private counts weigh ratings. The margin is common to all counts:
// it changes the weights, but not the order of items, which chooses items and samples a user's
// tail.
func (s settings) weighsByCounts() bool {
	return s.weights() && (s.global() || keys.exponent.Chosen(s.Config) > 0)
}

// global reports whether one scale of weights serves all users.
func (s settings) global() bool { return keys.normalise.Is(s.Config, string(GlobalNorm)) }

// averaged reports whether the mean of ratings is released.
func (s settings) averaged() bool { return !s.implicit() && keys.meanCap.Chosen(s.Config) > 0 }

// sums counts the secure sums that a run attempts.
func (s settings) sums() int {
	n := 0
	if s.popular() {
		n++
	}
	if s.items() {
		n = int(algorithm.Rounds.Chosen(s.Config)) * int(keys.resample.Chosen(s.Config))
	}
	if s.counted() || s.averaged() {
		n++
	}
	if s.biases() {
		n += max(int(keys.biasRounds.Chosen(s.Config)), 1)
	}
	return n
}

// outerSteps is T. Noise makes late steps expensive; without noise users and items continue to
// settle.
func (s settings) outerSteps() float64 {
	switch {
	case s.solver() == namedJoint:
		return 50 // of one step each
	case s.descends():
		return 10 // of several steps each
	case s.variational():
		return 16
	case !s.private():
		return 12
	case s.manySteps():
		return 12
	case s.pooled():
		return 6 // posteriors average the releases of all steps
	case s.solver() == namedCMF && s.biases():
		return 4
	case s.form().resampled:
		return 2 // of several sums each
	default:
		return 3
	}
}

// growth is the ratio of a sum's μ² to the μ² of the sum before. Users' embeddings settle, so later
// statistics say more.
func (s settings) growth() float64 {
	if s.noisyPosteriors() {
		return 1.2
	}
	return either(s.manySteps(), 1.4, 1)
}

// manySteps reports whether the budget allows outer steps in which users and items settle.
func (s settings) manySteps() bool {
	return s.private() && s.pooled() && !s.implicit() && algorithm.Epsilon.Chosen(s.Config) >= 3
}

// normBias is the largest norm of a user's addition to the sums for biases.
func (s settings) normBias(f *config.Facts) float64 {
	switch {
	case !s.private() || !s.learns():
		return 0
	case s.starved(f):
		return halfScale(f) / 3 // nearly every user is scaled down to it
	default:
		return 0.5 * halfScale(f)
	}
}

// normItems is the largest norm of a user's addition to moments.
func (s settings) normItems(f *config.Facts) float64 {
	if s.noisyPosteriors() {
		return 0.5 * halfScale(f) * keys.clipUser.Or(s.Config, s.clipUser())
	}
	return either(s.private() && s.form().ours && s.biases(), 0.25*halfScale(f), 0)
}

// rank is d, chosen or given.
func (s settings) rank() float64 {
	if !s.items() {
		return 1 // the embeddings stay zero
	}
	return s.fewestRank()
}

// rankOf is d for the given facts. If ε·users is small, all but one or two directions are noise,
// and the Gramian cannot tell which.
func (s settings) rankOf(f *config.Facts) config.Number {
	if !s.items() || !s.private() || !s.pooled() || s.implicit() || s.variational() {
		return config.Fixed(s.rank())
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
		return config.Fixed(s.rank())
	}
}

// poolsRanks reports whether the solver that learns priors learns rankings. No biases come before
// rankings.
func (s settings) poolsRanks() bool { return s.pooled() && s.implicit() }

// fewestRank is the smallest rank that is about as good as any. With noise per item only a small
// rank is affordable. Learned priors turn unneeded ranks off.
func (s settings) fewestRank() float64 {
	switch {
	case s.poolsRanks():
		return 16 // no biases come first
	case s.variational():
		return 12 // uncertain ranks do no harm
	case s.private() || s.pooled():
		return 4
	default:
		return 8
	}
}

// clipUser is Γ_u. With implicit feedback all targets are equal, and the direction of u says most.
func (s settings) clipUser() float64 {
	switch {
	case s.noisyPosteriors(): // E[ggᵀ] has this norm for a user with few ratings, and seldom more than its square
		return math.Sqrt(algorithm.Rank.Or(s.Config, s.rank()) + 1)
	case s.variational(): // beyond the embeddings of users of unit deviations
		return 3 * math.Sqrt(algorithm.Rank.Or(s.Config, s.rank()))
	case s.private() && s.poolsRanks():
		return 0.3
	case s.private() || s.pooled():
		return 1
	default:
		return 4
	}
}

// userRidge is λ_u. Without noise λ_u alone keeps users from fitting V by chance.
func (s settings) userRidge() float64 {
	switch {
	case s.descends():
		return either(s.private(), 3, 1)
	case !s.private():
		return 4
	case s.pooled(), s.solver() == namedCMF && s.biases():
		return 2
	default:
		return 1
	}
}

// rankPenalty is the factor by which a user's own ridge grows above the default rank with learned
// priors. At a higher rank an early V is noise in more directions. Weights of public features are
// equally certain at any rank, so the features grow by the same factor and their weights do not
// shrink.
func (s settings) rankPenalty() float64 {
	if !s.pooled() || s.poolsRanks() {
		return 1
	}
	return max(1, algorithm.Rank.Or(s.Config, s.rank())/s.fewestRank())
}

// itemPrior pulls an item to zero with the weight of so many ratings. The discount for noise pulls
// as well, and biases leave little to learn.
func (s settings) itemPrior() float64 {
	switch {
	case s.solver() == namedGradient:
		return 10
	case !s.private():
		return 20
	case !s.biases():
		return 5
	case s.solver() == namedCMF:
		return 10
	default:
		return 20
	}
}

// encoderSteps is the number of gradient steps an encoder takes in an outer step: few, if each has
// fresh noise.
func (s settings) encoderSteps() float64 {
	if s.form().resampled {
		return keys.steps.Or(s.Config, keys.resample.Or(s.Config, 10))
	}
	return keys.steps.Or(s.Config, 100)
}

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

// gramianShare is the share of second-order statistics beside the moments. A single Gramian sums
// over all users, so a very small share is enough.
func gramianShare(form string) float64 {
	if form == string(One) {
		return 0.05
	}
	return 0.3
}

// few reports whether ε·users is too small to learn embeddings of single items without biases
// before them: less than three times MovieLens 1M's users at ε = 1.
func few(epsilon float64, users int) bool { return epsilon*float64(users) < 3*6040 }

func (s settings) scarce(f *config.Facts) bool {
	return few(algorithm.Epsilon.Chosen(s.Config), f.Users)
}

// starved reports whether the budget hardly suffices for biases alone: ε·users is below MovieLens
// 1M's at ε = 1. Then public typical values hold the priors of biases, and biases are refined once.
// If items are many beside users, features say most about an item, and the refinement gained
// nothing.
func (s settings) starved(f *config.Facts) bool {
	return s.private() && s.biases() && s.learns() && f != nil && s.fewUsers(f)
}

// starvedBelow is a bound on ε·users.
const starvedBelow = 5000

// fewUsers reports whether ε·users is small and items are not many beside the users.
func (s settings) fewUsers(f *config.Facts) bool {
	return algorithm.Epsilon.Chosen(s.Config)*float64(f.Users) < starvedBelow && f.Items <= 2*f.Users
}

// These shares are for a starved run: biases get all except the mean's share and a last bit. Weight
// counts are drawn to their own law and need little.
const (
	starvedMean   = 0.02
	starvedRest   = 0.005 // of statistics
	starvedCounts = 0.1
)

// nearStart reports whether V stays near its public start and is not pulled to zero. At the start
// users find weights of features at no cost. It needs a run without biases; in rankings a user's
// few ratings say too little.
func (s settings) nearStart(f *config.Facts) bool {
	return s.encodes() && !s.descends() && s.scarce(f) && !s.biases() && !s.featureless() && !s.implicit()
}

// paramsOf returns the public settings of the algorithm, with nothing left open.
func paramsOf(setup *algorithm.Setup) Params {
	c := setup.Config
	s := settings{c}
	p := Params{
		Items: setup.Data.Items, Rank: int(algorithm.Rank.Or(c, s.rank())), Min: setup.Bottom(), Max: setup.Top(),
		Feedback: Feedback(algorithm.Feedback.Of(c)), Features: setup.Features, Seed: algorithm.Seed.Of(c),
		choices: new(choices), Single: s.broadcasts() && keys.broadcast.Is(c, single),
		WeighingParams: s.weighing(), UserParams: s.user(setup.Features),
	}
	p.Solver = algorithm.Of(c).(*family).solverNamed(s.solver())
	for _, x := range stages {
		x.read(&p, s)
	}
	p.TopItems = s.topItems(p.Items)
	p.ByWeights = p.TopItems > 0 && keys.chooseBy.Is(c, byWeights)
	if !s.items() { // biases get the whole budget, and nothing else is fitted
		p.Rank, p.Rounds, p.SamplingRate = 1, 0, 1
		p.Gramian, p.ClipUser, p.ClipRating, p.UserRidge, p.ItemPrior, p.StartSpread = One, 1, 1, 1, 1, 1
		p.Split.Bias, p.Resample = 1-p.Split.Counts-p.Split.Mean, 1
		if s.popular() {
			p.Solver, p.Unobserved, p.Split.Bias, p.Split.WeightCounts = ALS, 1, 0, 0.5 // none of these settings is used
		}
	}
	return p
}

// userFeatures returns the features that clients weigh for their users; nil: none.
func (s settings) userFeatures(f *dataset.ItemFeatures) *UserFeatures {
	if !s.weighsFeatures() {
		return nil
	}
	return NewUserFeatures(f, keys.userFeatureWeight.Value(s.Config))
}

// settingsOf returns the decisions that follow from a configuration.
func settingsOf(c config.Config) settings { return settings{c} }
