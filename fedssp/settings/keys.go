package settings

import (
	"github.com/fedsim/fedsim/config"
)

// Keys holds the keys of sufficient statistics.
var Keys struct {
	Learn, Gramian, Budgeting, Normalise, BiasFirst, Priors                                                    config.TextKey
	Exponent, Headroom, CountMargin, PerUser, CountCap, MeanCap, TopItems                                      config.NumberKey
	ItemsFile, ChooseBy, Broadcast                                                                             config.TextKey
	ClipUser, ClipRating, ClipBias, NormBias, NormItems, Growth, BiasRounds, PriorStrength                     config.NumberKey
	UserRidge, UserBiasRidge, UserFeatureWeight, PopularityWeight, ItemRidge, ItemPrior, BiasRidge, Unobserved config.NumberKey
	OrderWeight, StartDecay, Resample, SamplingRate, StartSpread                                               config.NumberKey
	ShareCounts, ShareMean, ShareBias, ShareWeightCounts, ShareGramian                                         config.NumberKey

	dense, ids, Optimiser              config.TextKey
	dim, startNorm, rate, steps, batch config.NumberKey
}

// condition reports whether a key has an effect with one of these algorithms.
type condition func(Settings) bool

// When adapts a condition to a key's declaration.
func When(w func(Settings) bool) func(config.Config) bool { return condition(w).When() }

func (w condition) When() func(config.Config) bool {
	if w == nil {
		return nil
	}
	return func(c config.Config) bool { return w(Settings{c}) }
}

// These are the commonest conditions.
var (
	items    condition = Settings.Items
	explicit condition = func(s Settings) bool { return !s.Implicit() }
	implicit condition = func(s Settings) bool { return s.Implicit() && s.Items() }
	biased   condition = Settings.Biases
	encoded  condition = Settings.encodes
	notPool  condition = func(s Settings) bool { return s.Items() && !s.pooled() && !s.byUser() }
	BySums   condition = func(s Settings) bool { return s.Items() && !s.Descends() }
	inPasses condition = func(s Settings) bool { return s.encodes() && !s.Descends() }
)

// init declares the keys of the family. Keys are chosen in the order of their declaration, and keys
// of one solver come after them.
func init() {
	declareRanking()
	declarePosteriors()
	declareStatistics()
	declareWeighing()
	declareCounts()
	declareBiases()
	declareUser()
	declareItems()
	declareEncoder()
	declareBatches()
	declareChoice()
}

// Number declares a number. If it is left open, choose sets it from the other settings and the
// facts.
func Number(name string, r config.Range, when condition, auto, help string, choose func(Settings, *config.Facts) config.Number) config.NumberKey {
	return openNumber(name, config.Real, r, when, auto, help, choose)
}

// count declares a whole number. If it is left open, choose sets it from the other settings and the
// facts.
func count(name string, r config.Range, when condition, auto, help string, choose func(Settings, *config.Facts) config.Number) config.NumberKey {
	return openNumber(name, config.Whole, r, when, auto, help, choose)
}

func openNumber(name string, kind config.Kind, r config.Range, when condition, auto, help string, choose func(Settings, *config.Facts) config.Number) config.NumberKey {
	return config.DeclareNumber(config.Key{
		Name: name, Kind: kind, Default: "auto", Auto: auto, Range: r, When: when.When(), Help: help,
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number { return choose(Settings{c}, f) },
	})
}

// Word declares a key with one of several words. If it is left open, choose sets it from the other
// settings and the facts.
func Word(name string, words []string, when condition, auto, help string, choose func(Settings, *config.Facts) string) config.TextKey {
	return config.DeclareText(config.Key{
		Name: name, Kind: config.Word, Default: "auto", Auto: auto, Words: words, When: when.When(), Help: help,
		ChooseWord: func(c config.Config, f *config.Facts) string { return choose(Settings{c}, f) },
	})
}

// Always adapts a choice that needs no facts.
func Always(choose func(Settings) float64) func(Settings, *config.Facts) config.Number {
	return func(s Settings, _ *config.Facts) config.Number { return config.Fixed(choose(s)) }
}

// Value always chooses the given number.
func Value(v float64) func(Settings, *config.Facts) config.Number {
	return Always(func(Settings) float64 { return v })
}

// ByFacts makes a choice that waits until the facts are known.
func ByFacts(choose func(Settings, *config.Facts) float64) func(Settings, *config.Facts) config.Number {
	return func(s Settings, f *config.Facts) config.Number {
		if f == nil {
			return config.Auto
		}
		return config.Fixed(choose(s, f))
	}
}

// wordByFacts is [ByFacts] of a word.
func wordByFacts(choose func(Settings, *config.Facts) string) func(Settings, *config.Facts) string {
	return func(s Settings, f *config.Facts) string {
		if f == nil {
			return "auto"
		}
		return choose(s, f)
	}
}

// halfScale is half the rating scale.
func halfScale(f *config.Facts) float64 { return (f.Max - f.Min) / 2 }

// maxClip is far above all ratings and embeddings, and its inverse far below. Variances square
// norms twice, and still stay far from overflow of a float64.
const maxClip = 1e9

// Clips is the range of clipping bounds.
func Clips() config.Range { return config.Between(1/maxClip, maxClip) }

// share declares a share of μ²: see [kernel.BudgetSplit].
func share(name string, when condition, auto, help string, choose func(Settings, *config.Facts) config.Number) config.NumberKey {
	return Number("statistics.shares."+name, config.Inside(0, 1), when, auto, help, choose)
}

// longest declares the largest norm of all that a user adds to sums. The norm varies less than a
// rating does, and the noise grows with it.
func longest(name string, when condition, auto, help string, choose func(Settings, *config.Facts) float64) config.NumberKey {
	return Number("statistics."+name, config.AtLeast(0), when, auto, help, ByFacts(choose))
}

// ranked reports whether the algorithm is one of this package's that take feedback into account.
func (s Settings) ranked() bool { return s.form().Ranks && s.form().Name != "" }
