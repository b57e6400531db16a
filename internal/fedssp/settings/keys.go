package settings

import (
	"cmp"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
)

// Keys holds the keys of sufficient statistics.
var Keys struct {
	Learn, Gramian, Budgeting, Normalise, BiasFirst, Priors                                                    config.TextKey
	Exponent, Headroom, CountMargin, PerUser, CountCap, MeanCap, TopItems                                      config.NumberKey
	ChooseBy                                                                                                   config.TextKey
	ClipUser, ClipRating, ClipBias, NormBias, NormItems, Growth, BiasRounds, PriorStrength, BiasTilt           config.NumberKey
	UserRidge, UserBiasRidge, UserFeatureWeight, PopularityWeight, ItemRidge, ItemPrior, BiasRidge, Unobserved config.NumberKey
	OrderWeight, StartDecay, Resample, SamplingRate, StartSpread                                               config.NumberKey
	ShareCounts, ShareMean, ShareBias, ShareWeightCounts, ShareGramian                                         config.NumberKey

	dense, ids, Optimiser              config.TextKey
	dim, startNorm, rate, steps, batch config.NumberKey
}

// condition reports whether a key has an effect with one of these algorithms; nil: always.
type condition = func(Settings) bool

// When adapts a condition to a key's declaration.
func When(w condition) func(config.Config) bool {
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
	return config.DeclareNumber(config.Key{
		Name: name, Kind: config.Real, Default: "auto", Auto: auto, Range: r, When: When(when), Help: help,
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number { return choose(Settings{c}, f) },
	})
}

// count is [Number] of a whole number.
func count(name string, r config.Range, when condition, auto, help string, choose func(Settings, *config.Facts) config.Number) config.NumberKey {
	k := Number(name, r, when, auto, help, choose)
	k.Kind = config.Whole
	return k
}

// Word declares a key with one of several words. If it is left open, choose sets it from the other
// settings and the facts.
func Word(name string, words []string, when condition, auto, help string, choose func(Settings, *config.Facts) string) config.TextKey {
	return config.DeclareText(config.Key{
		Name: name, Kind: config.Word, Default: "auto", Auto: auto, Words: words, When: When(when), Help: help,
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
	rule := config.ByFacts(func(c config.Config, f *config.Facts) float64 { return choose(Settings{c}, f) })
	return func(s Settings, f *config.Facts) config.Number { return rule(s.Config, f) }
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

// declareEncoder declares the keys of the public encoder of items: see [encoder.Settings].
func declareEncoder() {
	Keys.dim = config.DeclareNumber(config.Key{
		Name: "encoder.dim", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: When(encoded), Help: "Length of a feature's embedding; 0 is the rank.", Check: checkDim,
	})
	Keys.dense = Word("encoder.dense", []string{yes, no}, encoded, "no; yes of am-ssp and the steps that are compared with it, as published", "Whether a dense layer is laid on the embeddings: it costs more to learn through noise than it gives.",
		func(s Settings, _ *config.Facts) string { return yesIf(s.form().Dense) })
	Keys.ids = Word("encoder.ids", []string{yes, no}, encoded, "yes; no where little can be learned, and of am-ssp and the steps that are compared with it, as published", "Whether an item has an embedding of its own besides its features' embeddings.",
		func(s Settings, f *config.Facts) string {
			if s.form().Dense {
				return no
			}
			if f == nil {
				return "auto"
			}
			return yesIf(!s.nearStart(f))
		})
	Keys.startNorm = Number("encoder.start-norm", config.Above(0, 1e9), encoded, "0.3; 2 where little can be learned; 0.1 where gradients by the encoder are summed", "Typical norm of an item at the start.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			return cmp.Or(s.defaults().StartNorm, Either(s.nearStart(f), 2, 0.3))
		}))
	Keys.Optimiser = Word("encoder.optimiser", []string{exact, string(encoder.Adam), string(encoder.SGD)}, func(s Settings) bool { return s.encodes() || s.pooled() },
		"exact of ssp-c, adam of the others", "How the encoder is fitted: exact solves for its best parameters.", func(s Settings, _ *config.Facts) string {
			switch {
			case s.pooled():
				return exact
			case s.encodes():
				return string(encoder.Adam)
			default:
				return "auto"
			}
		})
	Keys.Optimiser.Check = checkOptimiser
	Keys.rate = Number("encoder.rate", config.Positive(), encoded, "0.3/√encoder.steps; 0.001 where little can be learned; 0.01 where gradients by the encoder are summed", "Learning rate of the encoder.",
		ByFacts(func(s Settings, f *config.Facts) float64 { // fewer steps are longer
			return cmp.Or(s.defaults().EncoderRate, Either(s.nearStart(f), 0.001, 0.3/math.Sqrt(s.encoderSteps())))
		}))
	Keys.steps = count("encoder.steps", config.Between(1, 1e6), inPasses, "100; 10 of ssp-i", "Gradient steps of a round.", Always(Settings.encoderSteps))
	Keys.batch = config.DeclareNumber(config.Key{
		Name: "encoder.batch", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: When(inPasses), Help: "Most items of a gradient step; 0 takes all.",
	})
}

func checkDim(c config.Config) string {
	s := Of(c)
	rank := int(algorithm.Rank.Or(c, s.Rank()))
	if dim := Keys.dim.Int(c); dim > 0 && Keys.dense.Chosen(c) == no && dim != rank {
		return fmt.Sprintf("%d is not the rank %d: embeddings of features are added up where encoder.dense is no", dim, rank)
	}
	return ""
}

func checkOptimiser(c config.Config) string {
	f := Of(c).form()
	if !Keys.Optimiser.Is(c, exact) || f.Name == "" {
		return ""
	}
	switch {
	case !f.Offers(func(x kernel.Traits) bool { return x.Learns }):
		return exact + " is for ssp-c, am-ssp and am-ssp-ids"
	case Keys.Gramian.Is(c, string(kernel.PerItem)) && !Of(c).Variational():
		return fmt.Sprintf("%s takes statistics.gramian: %s", exact, kernel.One)
	case Keys.Resample.Or(c, 1) > 1:
		return fmt.Sprintf("%s solves for a round's statistics once; statistics.resample must be 1", exact)
	default:
		return ""
	}
}

// EncoderOf returns the settings of the encoder in a configuration in which nothing is open.
func EncoderOf(c config.Config) encoder.Settings {
	return encoder.Settings{
		Dim: Keys.dim.Int(c), Dense: Keys.dense.Chosen(c) == yes, IDs: Keys.ids.Is(c, yes), StartNorm: Keys.startNorm.Value(c),
		Optimiser: encoder.Optimiser(Keys.Optimiser.Of(c)), Rate: Keys.rate.Value(c), Steps: Keys.steps.Int(c),
		Batch: Keys.batch.Int(c),
	}
}

// EncoderKeys lists the keys of every encoder.
func EncoderKeys() []*config.Key {
	return []*config.Key{Keys.dim.Key, Keys.dense.Key, Keys.ids.Key, Keys.startNorm.Key, Keys.Optimiser.Key, Keys.rate.Key}
}

// PassKeys lists the keys of an encoder that takes gradient steps on statistics.
func PassKeys() []*config.Key {
	return []*config.Key{Keys.steps.Key, Keys.batch.Key}
}
