package settings

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
)

// PosteriorsKey chooses whether users send moments of posteriors.
var PosteriorsKey config.TextKey

// declarePosteriors declares the key that chooses this solver. Keys are chosen in the order of
// their declaration, so this key comes before the keys that depend on it.
func declarePosteriors() {
	PosteriorsKey = Word("statistics.posteriors", []string{yes, no}, func(s Settings) bool { return s.Items() && s.form().Offers(withPosteriors) && !s.Implicit() },
		"yes of ssp-c without noise or where it is small: ε at least 100, and ε·users at least 3000 times the items, at most 20000",
		"Whether users send moments of the posteriors of their embeddings, not embeddings as if they were certain, and items have posteriors.", Settings.posteriors)
	PosteriorsKey.Check = func(c config.Config) string {
		if PosteriorsKey.Is(c, yes) {
			return Of(c).problemOfPosteriors()
		}
		return ""
	}
}

// withPosteriors reports whether a solver has posteriors of items: it learns priors, and needs all
// items in double precision.
func withPosteriors(x kernel.Traits) bool { return x.Learns && x.Exact }

// Variational reports whether users contribute moments of posteriors. They do if the noise allows
// it and no setting needs another solver.
func (s Settings) Variational() bool {
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

func (s Settings) noisyPosteriors() bool { return s.Private() && s.Variational() }

// problemOfPosteriors says why users cannot send moments of posteriors; "" if they can.
func (s Settings) problemOfPosteriors() string {
	switch c := s.Config; {
	case !s.form().Offers(withPosteriors):
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
	case s.Chooses():
		return "they are of all items; leave out statistics.top-items"
	default:
		return ""
	}
}

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
func (s Settings) posteriors(f *config.Facts) string {
	switch {
	case !s.Private():
		return yesIf(s.Variational())
	case s.problemOfPosteriors() != "" || !Keys.Gramian.Is(s.Config, "auto"):
		return no
	case f == nil:
		return "auto"
	}
	epsilon := algorithm.Epsilon.Chosen(s.Config)
	return yesIf(epsilon >= leastEpsilon && epsilon*float64(f.Users) >= leastSignal*float64(f.Items) && !s.wide(f))
}

// WeighingKeys lists the keys of the division of sensitivity among ratings.
func WeighingKeys() []*config.Key {
	return []*config.Key{Keys.Budgeting.Key, Keys.Exponent.Key, Keys.Normalise.Key, Keys.Headroom.Key, Keys.PerUser.Key, algorithm.LeastRatings.Key}
}

func declareWeighing() {
	Keys.Budgeting = Word("statistics.budgeting", []string{string(kernel.Weights), string(kernel.UniformSample), string(kernel.TailSample)}, nil,
		"weights; uniform of dpals and dpsgd", "How a user's sensitivity is dealt to its ratings: by weights, or to a sample of them.",
		func(s Settings, _ *config.Facts) string {
			if s.form().Sampled {
				return string(kernel.UniformSample)
			}
			return string(kernel.Weights)
		})
	// Counts cost more than the weights gain if the biases come first, and with noise weights of
	// 1/4 are worse than equal weights.
	Keys.Exponent = Number("statistics.exponent", config.Between(0, 2), Settings.weights, "0; 0.1 of ada-dpals, ada-dpsgd and am-ssp-ids; 0.25 of am-ssp, am-dpsgd and dp-sgd-mf, as published",
		"How much more a rating of a rare item weighs: by the item's private count to the power of minus this.",
		Always(func(s Settings) float64 {
			if s.form().Dense {
				return 0.25
			}
			return Either(s.form().Weighted, 0.1, 0)
		}))
	Keys.Normalise = config.DeclareText(config.Key{
		Name: "statistics.normalise", Kind: config.Word, Default: string(kernel.PerUserNorm), Words: []string{string(kernel.PerUserNorm), string(kernel.GlobalNorm)},
		When: When(Settings.weights),
		Help: "How weights are brought to the bound of a user: by each user's own scale, or by one for all users, with larger weights scaled back (multi-task, (11) and (12)).",
	})
	Keys.Headroom = config.DeclareNumber(config.Key{
		Name: "statistics.headroom", Kind: config.Real, Default: "1", Range: config.Between(1e-3, 1e3), When: When(func(s Settings) bool { return s.weights() && s.global() }),
		Help: "By how much the square of an average user's weights stays below the bound with one scale for all: c(n) of the multi-task paper.",
	})
	// Half as many (multi-task paper, section 5.1) lose more than their noise costs.
	Keys.PerUser = count("statistics.per-user", config.Between(1, 1e6), func(s Settings) bool { return !s.weights() || s.noisyPosteriors() }, "100; 1000 without noise",
		"Most ratings of a user in a sample. With posteriors under noise: how many ratings of a user count in full; if a user has more, each weighs less.", Always(func(s Settings) float64 { return Either(s.Private(), 100, 1000) }))
}

// perUser is Params.PerUser; 0 if all of a user's ratings count in full.
func (s Settings) perUser() int {
	if s.weights() && !s.noisyPosteriors() {
		return 0
	}
	return Keys.PerUser.Int(s.Config)
}

// Weighing returns the settings of the division of sensitivity among ratings.
func (s Settings) Weighing() kernel.WeighingParams {
	c := s.Config
	return kernel.WeighingParams{
		Budgeting: kernel.Budgeting(Keys.Budgeting.Of(c)), Exponent: Keys.Exponent.Value(c), Normalise: kernel.Normaliser(Keys.Normalise.Of(c)),
		Headroom: Keys.Headroom.Value(c), PerUser: s.perUser(), Least: algorithm.LeastRatings.Int(c),
	}
}

// declareChoice declares the keys that choose the items to train on: see kernel/choice.go.
func declareChoice() {
	Keys.TopItems = Number("statistics.top-items", config.AtLeast(0), BySums, "of a wide catalogue (more than 20000 items) where weights choose them a sixth of ε times users, from 1000 to 5000; 2000 in rankings of dpals, ada-dpals and dp-cmf; else 0",
		"Number of items that are trained on, or a share of them below 1; 0 trains on all. Private counts or weights choose the items with most ratings. The others are scored by their biases and features, or last.",
		ByFacts(Settings.most))
	Keys.TopItems.Check = func(c config.Config) string {
		switch v := Keys.TopItems.Value(c); {
		case v >= 1 && v != math.Trunc(v):
			return fmt.Sprintf("%v is neither a share below 1 nor a whole number of items", v)
		default:
			return ""
		}
	}
	Keys.ChooseBy = Word("statistics.choose-by", []string{ByCounts, ByWeights}, Settings.Chooses, "weights of a wide catalogue (more than 20000 items) whose biases come first, else counts",
		"How items to train on are chosen: by private counts before all else, or by the weights that come with biases of all items. With weights the other items keep their biases.",
		wordByFacts(func(s Settings, f *config.Facts) string {
			if s.wide(f) && s.problemOfWeights() == "" {
				return ByWeights
			}
			return ByCounts
		}))
	Keys.ChooseBy.Check = func(c config.Config) string {
		if s := Of(c); Keys.ChooseBy.Is(c, ByWeights) && s.Chooses() {
			return s.problemOfWeights()
		}
		return ""
	}
	Keys.StartDecay = config.DeclareNumber(config.Key{
		Name: "statistics.start-decay", Kind: config.Real, Default: "0.8", Range: config.Between(0, 1), When: func(c config.Config) bool { return Of(c).form().Starts && !algorithm.StartFrom.Is(c, "") },
		Help: "Weight of the sums of the session that this one starts from, relative to sums of this session with the same noise. It falls by this factor with each session of age. 1: old sums count in full.",
	})
}

// choosesByWeights reports whether weights choose the items, before and after every auto is
// replaced.
func (s Settings) choosesByWeights(f *config.Facts) bool {
	some := s.most(f) > 0
	if Keys.TopItems.Of(s.Config).Given {
		some = s.Chooses()
	}
	return some && (Keys.ChooseBy.Is(s.Config, ByWeights) || Keys.ChooseBy.Is(s.Config, "auto") && s.wide(f) && s.problemOfWeights() == "")
}

// UsersOfBiases is the number of users that the share of biases is computed from. If weights choose
// items of a wide catalogue without features, it is as if the catalogue were not wide, with as many
// users for each item.
func (s Settings) UsersOfBiases(f *config.Facts) float64 {
	if !s.choosesByWeights(f) || !s.Featureless() {
		return float64(f.Users)
	}
	return float64(f.Users) * min(1, wideFrom/float64(f.Items))
}

// These constants set the number of items of a wide catalogue that are trained on. It is ε·users/6,
// because few items beyond have more than noise in the statistics. The maximum keeps a client's
// upload below 3 MB in a run of 160,000 items.
const (
	mostItems  = 5000
	leastItems = 1000
	eachItem   = 6
)

// rankedItems is the number of items that rankings train on in a wide catalogue, if counts choose
// them and each item is solved for by itself. With more items most have only noise
// (experiments/results.md, "Wide catalogues").
const rankedItems = 2000

// most is the default number of items that are trained on.
func (s Settings) most(f *config.Facts) float64 {
	switch {
	case s.wide(f) && s.Private() && s.Implicit() && s.Items() && s.traits().ByItem && !Keys.ChooseBy.Is(s.Config, ByWeights):
		return rankedItems
	case !s.wide(f), !s.Private(), !s.pooled(), s.Variational(), s.problemOfWeights() != "", Keys.ChooseBy.Is(s.Config, ByCounts), Keys.PopularityWeight.Or(s.Config, 0) > 0:
		return 0
	}
	return min(max(math.Round(algorithm.Epsilon.Chosen(s.Config)*float64(f.Users)/eachItem), leastItems), mostItems)
}

// TopItems is the number of items that private counts choose; 0: all.
func (s Settings) TopItems(items int) int {
	if !s.Chooses() {
		return 0
	}
	v := Keys.TopItems.Value(s.Config)
	if v < 1 {
		v = max(1, math.Round(v*float64(items)))
	}
	return int(min(v, math.MaxInt32))
}
