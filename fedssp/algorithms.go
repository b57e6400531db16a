package fedssp

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
)

// onScale lists the stages of algorithms that take ratings on a scale only. biasesOnly lists the
// stages of algorithms that learn no embeddings.
var (
	onScale    = []stage{counting{}, averaging{}, biasing{}, statistics{}}
	biasesOnly = []stage{counting{}, averaging{}, biasing{}, ranking{}}
)

// family is an algorithm of this package. In each algorithm users send sufficient statistics; the
// form holds the differences.
type family struct {
	about  algorithm.About
	stages []stage // the releases of a run are among them
	form   form
}

func (f *family) About() *algorithm.About { return &f.about }

func (f *family) formOf() *form { return &f.form }

// solverNamed returns the algorithm's solver of a name; without embeddings any solver, which is
// never asked.
func (f *family) solverNamed(name string) Solver {
	for _, x := range f.form.solvers {
		if x.String() == name {
			return x
		}
	}
	return ALS
}

func init() {
	declareKeys()
	for _, f := range []*family{
		{
			about:  algorithm.About{Name: "dpals", Help: "solves for items from sufficient statistics of at most so many ratings of each user", Paper: "multi-task, algorithm 1"},
			stages: stages, form: form{solvers: []Solver{ALS}, sampled: true},
		},
		{
			about:  algorithm.About{Name: "ada-dpals", Help: "dpals of all ratings, with weights that favour rare items", Paper: "multi-task, algorithm 2"},
			stages: stages, form: form{solvers: []Solver{ALS}, weighted: true},
		},
		{
			about: algorithm.About{Name: "dp-cmf", Help: "factors public features of items beside the ratings", Paper: "DP-CMF, section 3",
				Features: algorithm.NeedsFeatures, NoFeatures: "dp-cmf factors features beside the ratings; name some, or use ssp-c"},
			stages: stages, form: form{solvers: []Solver{CMF}, ours: true},
		},
		{
			// ssp-c is the default because it learns most from a budget, or nearly so, on every
			// data set of docs/results.md.
			about: algorithm.About{Name: "ssp-c", Default: true, Help: "takes the statistics of a round once, with biases before and a single Gramian", Paper: "AM-SSP, algorithm 8, in our form",
				Features: algorithm.TakesFeatures},
			stages: stages, form: form{solvers: []Solver{ALS, Encoded, Pooled, Variational}, ours: true},
		},
		{
			about: algorithm.About{Name: "ssp-i", Help: "takes the statistics with fresh noise for every step of the solver", Paper: "AM-SSP, algorithm 2",
				Features: algorithm.TakesFeatures},
			stages: stages, form: form{solvers: []Solver{Encoded}, ours: true, resampled: true},
		},
		{
			about: algorithm.About{Name: "am-ssp", Help: "ssp-c as published: an encoder of public features with a dense layer, and statistics of each item", Paper: "AM-SSP, algorithm 8 and E.1.2",
				Features: algorithm.TakesFeatures},
			stages: stages, form: form{solvers: []Solver{ALS, Encoded, Pooled}, weighted: true, dense: true},
		},
		{
			about: algorithm.About{Name: "am-ssp-ids", Help: "am-ssp with an embedding of each item's own in place of the dense layer", Paper: "AM-SSP, algorithm 8, in our form",
				Features: algorithm.TakesFeatures},
			stages: stages, form: form{solvers: []Solver{ALS, Encoded, Pooled}, weighted: true},
		},
		{
			about: algorithm.About{Name: "ssp-convex", Help: "sends the second-order expansion of a convex loss", Paper: "AM-SSP, algorithm 7",
				Features: algorithm.TakesFeatures},
			stages: onScale, form: form{solvers: []Solver{Convex}, ours: true},
		},
		{
			about:  algorithm.About{Name: "dpsgd", Help: "takes steps against gradients of at most so many ratings of each user", Paper: "multi-task, table 2"},
			stages: onScale, form: form{solvers: []Solver{Gradient}, sampled: true},
		},
		{
			about:  algorithm.About{Name: "ada-dpsgd", Help: "dpsgd of all ratings, with weights that favour rare items", Paper: "multi-task, algorithm 2"},
			stages: onScale, form: form{solvers: []Solver{Gradient}, weighted: true},
		},
		{
			about: algorithm.About{Name: "am-dpsgd", Help: "am-ssp with sums of gradients of its encoder in place of statistics", Paper: "AM-SSP, algorithm 6",
				Features: algorithm.TakesFeatures},
			stages: onScale, form: form{solvers: []Solver{EncoderGradient}, weighted: true, dense: true},
		},
		{
			about: algorithm.About{Name: "dp-sgd-mf", Help: "plain DP-SGD on all parameters of am-dpsgd at once, users' among them", Paper: "AM-SSP, E.1.5",
				Features: algorithm.TakesFeatures},
			stages: onScale, form: form{solvers: []Solver{Joint}, weighted: true, dense: true},
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
	x := &f.form
	x.name, x.features = a.Name, a.Features != algorithm.NoFeatures
	x.ranks, x.learnsItems = slices.Contains(f.stages, stage(ranking{})), slices.Contains(f.stages, stage(statistics{}))
	a.Keys = f.keys()
	a.Rank = func(c config.Config) float64 { return settingsOf(c).rank() }
	a.RankOf = func(c config.Config, facts *config.Facts) config.Number {
		return settingsOf(c).decided(facts).rankOf(facts)
	}
	a.Rounds = func(c config.Config) float64 { return settingsOf(c).outerSteps() }
	a.RoundsOf = func(c config.Config, facts *config.Facts) float64 { return settingsOf(c).decided(facts).outerSteps() }
	a.Sums = func(c config.Config) int { return settingsOf(c).sums() }
	a.Times = func(c config.Config) bool { return settingsOf(c).drifts() }
	a.CheckFeedback = func(c config.Config) string {
		if !x.ranks && settingsOf(c).implicit() {
			return fmt.Sprintf("%s is about ratings on a scale; it takes explicit feedback", a.Name)
		}
		return ""
	}
}
