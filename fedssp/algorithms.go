package fedssp

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
)

// stages lists everything a run may release, in the order of the releases. The settings choose
// among them.
var stages = []stage{counting{}, averaging{}, biasing{}, ranking{}, statistics{}}

// onScale lists the stages of algorithms that take ratings on a scale only. biasesOnly lists the
// stages of algorithms that learn no embeddings.
var (
	onScale    = []stage{counting{}, averaging{}, biasing{}, statistics{}}
	biasesOnly = []stage{counting{}, averaging{}, biasing{}, ranking{}}
)

// solvers maps the name of each solver to its code.
var solvers = map[Solver]solver{
	ALS: als{}, Pooled: pooled{}, Variational: variational{}, CMF: cmf{}, Encoded: encoderSolver{}, Convex: convex{},
	Gradient: gradient{}, EncoderGradient: encoderGradient{}, Joint: joint{},
}

// family is an algorithm of this package. In each algorithm users send sufficient statistics; the
// fields hold the differences.
type family struct {
	about   algorithm.About
	stages  []stage  // the releases of a run are among them
	solvers []Solver // the solvers that the settings may choose

	ours      bool // the algorithm departs from every paper
	sampled   bool // by default a user sends some of its ratings
	weighted  bool // by default ratings of rare items weigh more
	dense     bool // the encoder is the paper's: a dense layer, and no embedding for an item's id
	resampled bool // by default every step of the solver uses fresh statistics
}

// ranks reports whether the algorithm takes implicit feedback, learnsItems whether it learns
// embeddings of items.
func (f *family) ranks() bool       { return slices.Contains(f.stages, stage(ranking{})) }
func (f *family) learnsItems() bool { return slices.Contains(f.stages, stage(statistics{})) }

func (f *family) has(s Solver) bool { return slices.Contains(f.solvers, s) }

// solver returns the algorithm's solver, or "" if the settings choose it.
func (f *family) solver() Solver {
	switch len(f.solvers) {
	case 0:
		return ALS // any solver: without embeddings it is never called
	case 1:
		return f.solvers[0]
	default:
		return ""
	}
}

func (f *family) About() *algorithm.About { return &f.about }

func init() {
	declareKeys()
	for _, f := range []*family{
		{
			about:  algorithm.About{Name: "dpals", Help: "solves for items from sufficient statistics of at most so many ratings of each user", Paper: "multi-task, algorithm 1"},
			stages: stages, solvers: []Solver{ALS}, sampled: true,
		},
		{
			about:  algorithm.About{Name: "ada-dpals", Help: "dpals of all ratings, with weights that favour rare items", Paper: "multi-task, algorithm 2"},
			stages: stages, solvers: []Solver{ALS}, weighted: true,
		},
		{
			about: algorithm.About{Name: "dp-cmf", Help: "factors public features of items beside the ratings", Paper: "DP-CMF, section 3",
				Features: algorithm.NeedsFeatures, NoFeatures: "dp-cmf factors features beside the ratings; name some, or use ssp-c"},
			stages: stages, solvers: []Solver{CMF}, ours: true,
		},
		{
			// ssp-c is the default because it learns most from a budget, or nearly so, on every
			// data set of docs/results.md.
			about: algorithm.About{Name: "ssp-c", Default: true, Help: "takes the statistics of a round once, with biases before and a single Gramian", Paper: "AM-SSP, algorithm 8, in our form",
				Features: algorithm.TakesFeatures},
			stages: stages, solvers: []Solver{ALS, Encoded, Pooled, Variational}, ours: true,
		},
		{
			about: algorithm.About{Name: "ssp-i", Help: "takes the statistics with fresh noise for every step of the solver", Paper: "AM-SSP, algorithm 2",
				Features: algorithm.TakesFeatures},
			stages: stages, solvers: []Solver{Encoded}, ours: true, resampled: true,
		},
		{
			about: algorithm.About{Name: "am-ssp", Help: "ssp-c as published: an encoder of public features with a dense layer, and statistics of each item", Paper: "AM-SSP, algorithm 8 and E.1.2",
				Features: algorithm.TakesFeatures},
			stages: stages, solvers: []Solver{ALS, Encoded, Pooled}, weighted: true, dense: true,
		},
		{
			about: algorithm.About{Name: "am-ssp-ids", Help: "am-ssp with an embedding of each item's own in place of the dense layer", Paper: "AM-SSP, algorithm 8, in our form",
				Features: algorithm.TakesFeatures},
			stages: stages, solvers: []Solver{ALS, Encoded, Pooled}, weighted: true,
		},
		{
			about: algorithm.About{Name: "ssp-convex", Help: "sends the second-order expansion of a convex loss", Paper: "AM-SSP, algorithm 7",
				Features: algorithm.TakesFeatures},
			stages: onScale, solvers: []Solver{Convex}, ours: true,
		},
		{
			about:  algorithm.About{Name: "dpsgd", Help: "takes steps against gradients of at most so many ratings of each user", Paper: "multi-task, table 2"},
			stages: onScale, solvers: []Solver{Gradient}, sampled: true,
		},
		{
			about:  algorithm.About{Name: "ada-dpsgd", Help: "dpsgd of all ratings, with weights that favour rare items", Paper: "multi-task, algorithm 2"},
			stages: onScale, solvers: []Solver{Gradient}, weighted: true,
		},
		{
			about: algorithm.About{Name: "am-dpsgd", Help: "am-ssp with sums of gradients of its encoder in place of statistics", Paper: "AM-SSP, algorithm 6",
				Features: algorithm.TakesFeatures},
			stages: onScale, solvers: []Solver{EncoderGradient}, weighted: true, dense: true,
		},
		{
			about: algorithm.About{Name: "dp-sgd-mf", Help: "plain DP-SGD on all parameters of am-dpsgd at once, users' among them", Paper: "AM-SSP, E.1.5",
				Features: algorithm.TakesFeatures},
			stages: onScale, solvers: []Solver{Joint}, weighted: true, dense: true,
		},
		{
			about:  algorithm.About{Name: "private-item-bias", Help: "learns a bias of every item, or for rankings how popular it is, and nothing else: what any of these must beat"},
			stages: biasesOnly,
		},
	} {
		f.complete()
		algorithm.MustRegister(f)
	}
	algorithm.MustRegister(newCentral())
}

// complete adds the fields that all algorithms of the package share.
func (f *family) complete() {
	a := &f.about
	a.Clients, a.Noise, a.Private, a.ByUser = algorithm.Users, algorithm.DistributedNoise, true, true
	a.Units, a.Relation = []dp.Unit{dp.User}, dp.ZeroOut
	a.OtherUnit = "a user of " + a.Name + " fits u_i to all its ratings, and multiplies every row that it contributes to by it, so one rating moves all of them; " +
		"the guarantee for a rating is no better than the stated one for a user (theorem 1 of the am-ssp paper takes u_i as given)"
	a.Keys = f.keys()
	a.Rank = func(c config.Config) float64 { return settings{c}.rank() }
	a.RankOf = func(c config.Config, facts *config.Facts) config.Number {
		return settings{c}.decided(facts).rankOf(facts)
	}
	a.Rounds = func(c config.Config) float64 { return settings{c}.outerSteps() }
	a.RoundsOf = func(c config.Config, facts *config.Facts) float64 { return settings{c}.decided(facts).outerSteps() }
	a.Sums = func(c config.Config) int { return settings{c}.sums() }
	a.Times = func(c config.Config) bool { return settings{c}.drifts() }
	a.CheckFeedback = func(c config.Config) string {
		if !f.ranks() && (settings{c}).implicit() {
			return fmt.Sprintf("%s is about ratings on a scale; it takes explicit feedback", a.Name)
		}
		return ""
	}
}
