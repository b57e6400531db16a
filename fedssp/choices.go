package fedssp

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
)

// What auto stands for. The values were chosen on validation data (docs/results.md), as few
// as serve all algorithms and both data sets about as well as a choice for each would: what
// ended within 0.002 of another was left as it was.

// priorSteps is how many iterations of EM learn priors: they settle in fewer.
const priorSteps = 20

// The words of a choice that fedsim makes unless it is made.
const (
	yes = "yes"
	no  = "no"
)

// exact is the word for an encoder whose best parameters are solved for: a linear one with an
// offset for each item, the priors of which are learned too ([Pooled]).
const exact = "exact"

// either is a or, without the condition, b.
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

// settings are a configuration of one of these algorithms, seen through what it decides.
// All of it can be asked before and after every auto is replaced, with the same answer.
type settings struct{ config.Config }

// family is the algorithm; one without any of its features where the configuration names
// another package's, which none of the keys here have an effect with.
func (s settings) family() *family {
	if f, ok := algorithm.Of(s.Config).(*family); ok {
		return f
	}
	return &family{stages: stages, solvers: []Solver{ALS}}
}

// implicit reports whether a rating is taken for something that was consumed.
func (s settings) implicit() bool { return algorithm.Feedback.Is(s.Config, string(Implicit)) }

func (s settings) private() bool { return algorithm.Private(s.Config) }

func (s settings) featureless() bool { return algorithm.FeatureSpec.Is(s.Config, "none") }

// solver is how the server solves for the items. An item without features is known by its id
// alone: its encoder is a lookup table, whose optimum has a closed form, unless the
// statistics change with every step.
func (s settings) solver() Solver {
	switch f := s.family(); {
	case f.solver() != "":
		return f.solver()
	case s.variational():
		return Variational
	case s.exact():
		return Pooled
	case !s.featureless() || keys.resample.Or(s.Config, 1) > 1:
		return Encoded
	default:
		return ALS
	}
}

// variational reports whether users contribute moments of posteriors: where no noise forbids it, and nothing is asked for that
// it does not do.
func (s settings) variational() bool {
	switch {
	case posteriorsKey.Is(s.Config, yes):
		return s.problemOfPosteriors() == ""
	case posteriorsKey.Is(s.Config, no):
		return false
	default: // of a private run facts decide, see posteriors
		return !s.private() && s.problemOfPosteriors() == "" && keys.gramian.Is(s.Config, "auto")
	}
}

// decided has the choice of posteriors made, for keys that are chosen before it.
func (s settings) decided(f *config.Facts) settings {
	return settings{s.Config.Choose([]*config.Key{posteriorsKey.Key}, f)}
}

func (s settings) noisyPosteriors() bool { return s.private() && s.variational() }

// Posteriors are worth their noise from leastSignal on, and their bytes from leastEpsilon on.
//
// The variance of the noise in an item's sums is inversely proportional to μ², about 2ε, and proportional to the ratings of a user that count in full. The ratings of
// an average item are as many times users/items. So ε·users/items is the ratio of an average item's sum to the variance of its noise but for
// a constant, and all of it is public. On validation data posteriors gain 0.011 RMSE at 630
// and lose 0.003 at 190 (MovieLens latest-small), gain 0.003 at 1630 and lose 0.010 at 490 (synthetic:ml-1m); on the 600 users of synthetic:small they
// lose 0.005 at 1950 and gain 0.002 at 3000.
const (
	leastSignal  = 3000
	leastEpsilon = 100
)

// posteriors is whether users send moments of posteriors where the settings leave it open.
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

// problemOfPosteriors is what stands against them; "" if nothing does.
func (s settings) problemOfPosteriors() string {
	switch c := s.Config; {
	case !s.family().has(Variational):
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
		return s.family().has(Variational) && !keys.gramian.Is(s.Config, string(PerItem)) && keys.resample.Or(s.Config, 1) == 1
	default:
		return false
	}
}

// pooled reports whether priors of items are learned.
func (s settings) pooled() bool { return s.solver() == Pooled || s.variational() }

// learns reports whether priors are learned from the statistics: those of biases, and with
// the exact encoder those of items.
func (s settings) learns() bool {
	return s.pooled() || !keys.priors.Is(s.Config, "fixed") && s.biases()
}

// encodes reports whether items are the output of an encoder.
func (s settings) encodes() bool {
	return s.solver() == Encoded || s.solver() == Convex && !s.featureless() || s.byUser()
}

// descends reports whether steps are taken against sums of gradients, and byUser whether against those of an encoder. Only
// solvers that an algorithm fixes do.
func (s settings) descends() bool { return s.family().solver().descends() }

func (s settings) byUser() bool { return s.family().solver().byUser() }

// items reports whether embeddings of items are learned.
func (s settings) items() bool { return s.family().learnsItems() && !s.popular() }

// popular reports whether of rankings nothing but how popular items are is learned.
func (s settings) popular() bool {
	return s.implicit() && (!s.family().learnsItems() || keys.learn.Is(s.Config, popularity))
}

// What rankings learn.
const (
	embeddings = "embeddings"
	popularity = "popularity"
)

// ranksBy is what rankings learn where nothing is said. Noise that leaves of embeddings next to nothing still shows which items most
// rated, and the whole budget shows it best. Priors that are learned from features (the pooled solver) find more where items are many and each is rated
// by few; the other solvers need far more budget to. Papers' forms stay as they are, and who names a form of second-order statistics has them.
func (s settings) ranksBy(f *config.Facts) string {
	switch {
	case !s.private() || !s.family().ours || !keys.gramian.Is(s.Config, "auto"), s.pooled() && !s.fewUsers(f), !s.scarce(f):
		return embeddings
	default:
		return popularity
	}
}

// biases reports whether item biases are released first.
func (s settings) biases() bool {
	switch {
	case !s.family().learnsItems():
		return !s.implicit()
	case !keys.biasFirst.Is(s.Config, "auto"):
		return keys.biasFirst.Is(s.Config, yes)
	default: // half of what there is to learn is biases, and they need far less noise
		return s.family().ours && !s.implicit()
	}
}

// weighsFeatures reports whether clients may weigh public features for their users: where there
// are any.
func (s settings) weighsFeatures() bool {
	return s.family().about.Features != algorithm.NoFeatures && !s.featureless() && !s.implicit()
}

// userDrift is the variance of the drift of a user's ratings. On MovieLens latest-small 0.15 to 0.3 are about as good.
func (s settings) userDrift() float64 {
	f := s.family()
	return either(f.ours || !f.learnsItems(), 0.25, 0)
}

// drifts reports whether users' ratings are seen to drift.
func (s settings) drifts() bool { return !s.implicit() && keys.userDrift.Chosen(s.Config) > 0 }

// weighsPopularity reports whether clients weigh how many rated an item: where that is released with the biases.
func (s settings) weighsPopularity() bool {
	return s.popularity() && keys.popularityWeight.Chosen(s.Config) > 0
}

// popularity reports whether clients may.
func (s settings) popularity() bool {
	return s.pooled() && s.items() && s.biases() && !s.ofSomeItems()
}

func (s settings) weights() bool { return keys.budgeting.Chosen(s.Config) == string(Weights) }

// counted reports whether item counts are released: where weights, samples or the choice of items go by them.
func (s settings) counted() bool {
	return s.choosesByCounts() || keys.budgeting.Chosen(s.Config) == string(TailSample) || s.weighsByCounts()
}

// weighsByCounts reports whether private counts weigh ratings. A margin, which all counts share, changes these weights and not the order of items,
// by which items are chosen and a user's tail is sampled.
func (s settings) weighsByCounts() bool {
	return s.weights() && (s.global() || keys.exponent.Chosen(s.Config) > 0)
}

// global reports whether one scale of weights serves all users.
func (s settings) global() bool { return keys.normalise.Is(s.Config, string(GlobalNorm)) }

// averaged reports whether the mean of ratings is released.
func (s settings) averaged() bool { return !s.implicit() && keys.meanCap.Chosen(s.Config) > 0 }

// sums is how many secure sums are attempted.
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

// outerSteps is T. Noise makes late steps dear; without it users and items go on to settle.
func (s settings) outerSteps() float64 {
	switch {
	case s.solver() == Joint:
		return 50 // of one step each
	case s.descends():
		return 10 // of several
	case s.variational():
		return 16
	case !s.private():
		return 12
	case s.manySteps():
		return 12
	case s.pooled():
		return 6 // what is released of one averages with the others
	case s.solver() == CMF && s.biases():
		return 4
	case s.family().resampled:
		return 2 // of several sums each
	default:
		return 3
	}
}

// growth is what a sum has of μ² beside the one before: users' embeddings settle, and later statistics say more.
func (s settings) growth() float64 {
	if s.noisyPosteriors() {
		return 1.2
	}
	return either(s.manySteps(), 1.4, 1)
}

// manySteps reports whether there is budget for outer steps in which users and items settle.
func (s settings) manySteps() bool {
	return s.private() && s.pooled() && !s.implicit() && algorithm.Epsilon.Chosen(s.Config) >= 3
}

// normBias is the largest norm of what a user adds to the sums for biases.
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

// normItems is that of what it adds to moments.
func (s settings) normItems(f *config.Facts) float64 {
	if s.noisyPosteriors() {
		return 0.5 * halfScale(f) * keys.clipUser.Or(s.Config, s.clipUser())
	}
	return either(s.private() && s.family().ours && s.biases(), 0.25*halfScale(f), 0)
}

// rank is d, as chosen or given.
func (s settings) rank() float64 {
	if !s.items() {
		return 1 // of embeddings that stay zero
	}
	return s.fewestRank()
}

// rankOf is d for so many users. Where ε times users is small, noise is all there is in more than one or two directions, and
// the Gramian cannot tell which they are.
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

// poolsRanks reports whether the solver that learns priors learns rankings, for which no
// biases come first.
func (s settings) poolsRanks() bool { return s.pooled() && s.implicit() }

// fewestRank is the fewest that are about as good as any. With noise per item few are
// affordable, and learned priors turn ranks that are not needed off.
func (s settings) fewestRank() float64 {
	switch {
	case s.poolsRanks():
		return 16 // no biases say most of it
	case s.variational():
		return 12 // what is uncertain does no harm
	case s.private() || s.pooled():
		return 4
	default:
		return 8
	}
}

// clipUser is Γ_u: of implicit feedback, whose targets do not differ, directions say most.
func (s settings) clipUser() float64 {
	switch {
	case s.noisyPosteriors(): // the norm of E[ggᵀ] where little is known of a user is the root of that, and seldom more than its square
		return math.Sqrt(algorithm.Rank.Or(s.Config, s.rank()) + 1)
	case s.variational(): // beyond what users of unit deviations reach
		return 3 * math.Sqrt(algorithm.Rank.Or(s.Config, s.rank()))
	case s.private() && s.poolsRanks():
		return 0.3
	case s.private() || s.pooled():
		return 1
	default:
		return 4
	}
}

// userRidge is λ_u: without noise what V fits by chance is regularised by it alone.
func (s settings) userRidge() float64 {
	switch {
	case s.descends():
		return either(s.private(), 3, 1)
	case !s.private():
		return 4
	case s.pooled(), s.solver() == CMF && s.biases():
		return 2
	default:
		return 1
	}
}

// rankPenalty is by how much more than at the default rank a user's own fit is regularised with
// learned priors, to which a V that says little yet is noise in so many more directions. Weights of
// public features, which are as certain at any rank, count so much more that they are not shrunk
// with it.
func (s settings) rankPenalty() float64 {
	if !s.pooled() || s.poolsRanks() {
		return 1
	}
	return max(1, algorithm.Rank.Or(s.Config, s.rank())/s.fewestRank())
}

// itemPrior is how many ratings pull an item to zero. Noise that is discounted pulls besides, and
// what biases leave is little.
func (s settings) itemPrior() float64 {
	switch {
	case s.solver() == Gradient:
		return 10
	case !s.private():
		return 20
	case !s.biases():
		return 5
	case s.solver() == CMF:
		return 10
	default:
		return 20
	}
}

// encoderSteps is how many gradient steps an encoder takes in an outer step: with fresh
// noise for each, few.
func (s settings) encoderSteps() float64 {
	if s.family().resampled {
		return keys.steps.Or(s.Config, keys.resample.Or(s.Config, 10))
	}
	return keys.steps.Or(s.Config, 100)
}

// biasShare is what biases get of μ²: where few users share a small budget little else can
// be learned. Best on validation data were at ε of 1, 5 and 20 with 6,040 users about 0.95, 0.6
// and 0.5, and at each from 0.7 to 0.95 with 610.
//
// Of a wide catalogue without features, of counts as many users as there were for each item if it were not wide: of synthetic:libimseti-20000, 168,791 items with 14 ratings each, all that
// statistics have is better spent on biases.
func biasShare(epsilon float64, users int, of float64) float64 {
	return min(max(0.95-0.215*math.Log(epsilon*of/6040), 0.5), 0.95) - (meanShare(epsilon, users) - leastMean)
}

// leastMean is what the mean gets of μ² at the least, and mostMean at the most.
const (
	leastMean = 0.01
	mostMean  = 0.05
)

// meanShare is the mean's share where biases follow: so much that noise moves it by about 0.05 stars of a scale of five, as far
// as that is to be had. All who rated little are drawn to it.
func meanShare(epsilon float64, users int) float64 {
	return min(max(leastMean*dense.Sqr(2640/(epsilon*float64(users))), leastMean), mostMean)
}

// gramianShare is what second-order statistics get beside the moments: a single Gramian
// sums over everybody, and next to nothing is enough.
func gramianShare(form string) float64 {
	if form == string(One) {
		return 0.05
	}
	return 0.3
}

// few reports whether ε times users is too little to learn embeddings of single items from without
// biases before them: less than three times that of ε = 1 and MovieLens 1M's users.
func few(epsilon float64, users int) bool { return epsilon*float64(users) < 3*6040 }

func (s settings) scarce(f *config.Facts) bool {
	return few(algorithm.Epsilon.Chosen(s.Config), f.Users)
}

// starved reports whether biases are about all that there is budget to learn, and hardly those: less than ε = 1 and MovieLens 1M's
// users. Then what is usual holds their priors, and they are refined once. Where items are many beside users each is rated by few, their features
// say most of it, and nothing was gained.
func (s settings) starved(f *config.Facts) bool {
	return s.private() && s.biases() && s.learns() && f != nil && s.fewUsers(f)
}

// starvedBelow is ε times users.
const starvedBelow = 5000

// fewUsers reports whether ε times users is small, and items are not many beside them.
func (s settings) fewUsers(f *config.Facts) bool {
	return algorithm.Epsilon.Chosen(s.Config)*float64(f.Users) < starvedBelow && f.Items <= 2*f.Users
}

// Shares of a starved run: what is not of the mean is of biases but for a last bit. Weight counts are drawn to their own law and need little.
const (
	starvedMean   = 0.02
	starvedRest   = 0.005 // of statistics
	starvedCounts = 0.1
)

// nearStart reports whether V stays near its public start, in which users find weights of
// features at no cost, and is not pulled to zero from there: without biases to begin with. Rankings are not said by a user's
// own few.
func (s settings) nearStart(f *config.Facts) bool {
	return s.encodes() && !s.descends() && s.scarce(f) && !s.biases() && !s.featureless() && !s.implicit()
}

// paramsOf are the public settings of the algorithm, nothing left open.
func paramsOf(setup *algorithm.Setup) Params {
	c := setup.Config
	s := settings{c}
	p := Params{
		Items: setup.Data.Items, Rank: int(algorithm.Rank.Or(c, s.rank())), Min: setup.Bottom(), Max: setup.Top(),
		Feedback: Feedback(algorithm.Feedback.Of(c)), Features: setup.Features, Seed: algorithm.Seed.Of(c),
		choices: new(choices), Single: s.broadcasts() && keys.broadcast.Is(c, single),
		WeighingParams: s.weighing(), UserParams: s.user(setup.Features),
	}
	p.Solver = s.solver()
	for _, x := range stages {
		x.read(&p, s)
	}
	p.TopItems = s.topItems(p.Items)
	p.ByWeights = p.TopItems > 0 && keys.chooseBy.Is(c, byWeights)
	if !s.items() { // all that is left is the biases', and nothing else is fitted
		p.Rank, p.Rounds, p.SamplingRate = 1, 0, 1
		p.Gramian, p.ClipUser, p.ClipRating, p.UserRidge, p.ItemPrior, p.StartSpread = One, 1, 1, 1, 1, 1
		p.Split.Bias, p.Resample = 1-p.Split.Counts-p.Split.Mean, 1
		if s.popular() {
			p.Solver, p.Unobserved, p.Split.Bias, p.Split.WeightCounts = ALS, 1, 0, 0.5 // of which nothing is used
		}
	}
	return p
}

// userFeatures are what clients weigh for their users; nil: nothing.
func (s settings) userFeatures(f *dataset.ItemFeatures) *UserFeatures {
	if !s.weighsFeatures() {
		return nil
	}
	return NewUserFeatures(f, keys.userFeatureWeight.Value(s.Config))
}
