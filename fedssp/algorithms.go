package fedssp

import (
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedssp/ease"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/fedssp/stage"
)

func init() {
	for _, f := range []family{
		{
			about: algorithm.About{Name: "dpals", Help: "private alternating least squares: items from noisy sums over a capped number of ratings of each user", Paper: "multi-task, algorithm 1"},
			form:  settings.Form{Solvers: []settings.Solver{solver.ALS}, Sampled: true, Starts: true},
		},
		{
			about: algorithm.About{Name: "ada-dpals", Help: "dpals on all ratings, weighted in favour of rare items", Paper: "multi-task, algorithm 2"},
			form:  settings.Form{Solvers: []settings.Solver{solver.ALS}, Weighted: true, Starts: true},
		},
		{
			about: algorithm.About{Name: "dp-cmf", Help: "private collective factorization: factors the ratings together with public features of items", Paper: "DP-CMF, section 3",
				Features: algorithm.NeedsFeatures, NoFeatures: "dp-cmf factors features beside the ratings; name some with --features FILE.csv, or use ssp-c"},
			form: settings.Form{Solvers: []settings.Solver{solver.CMF}, Ours: true, Starts: true},
		},
		{
			// ssp-c is the default because it learns most from a budget, or nearly so, on every
			// data set of experiments/results.md.
			about: algorithm.About{Name: "ssp-c", Default: true, Help: "sufficient statistics perturbation: item biases first, then embeddings from public features of items, by one noisy sum a round", Paper: "AM-SSP, algorithm 8, in our form",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{solver.ALS, solver.Encoded, solver.Pooled, solver.Variational}, Ours: true, Starts: true},
		},
		{
			about: algorithm.About{Name: "ssp-i", Help: "sufficient statistics perturbation with a fresh noisy sum for every step of the solver", Paper: "AM-SSP, algorithm 2",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{solver.Encoded}, Ours: true, Resampled: true},
		},
		{
			about: algorithm.About{Name: "am-ssp", Help: "ssp-c as published: an encoder of public features with a dense layer, and separate statistics for each item", Paper: "AM-SSP, algorithm 8 and E.1.2",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{solver.ALS, solver.Encoded, solver.Pooled}, Weighted: true, Dense: true},
		},
		{
			about: algorithm.About{Name: "am-ssp-ids", Help: "am-ssp with an own embedding for each item in place of the dense layer", Paper: "AM-SSP, algorithm 8, in our form",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{solver.ALS, solver.Encoded, solver.Pooled}, Weighted: true},
		},
		{
			about: algorithm.About{Name: "private-item-bias", Help: "learns only a bias for each item, or its popularity for rankings: the baseline to beat", LocalNoise: true},
		},
	} {
		Register(f.about, f.form)
	}
	algorithm.MustRegister(ease.New())
}

// family is an algorithm of this package. In each algorithm users send sufficient statistics; the
// form holds the differences.
type family struct {
	about algorithm.About
	form  settings.Form
}

func (f *family) About() *algorithm.About { return &f.about }

func (f *family) FormOf() *settings.Form { return &f.form }

// Register registers an algorithm of the family, with all fields of About that follow from the form
// left out.
func Register(about algorithm.About, form settings.Form) {
	f := &family{about, form}
	f.complete()
	algorithm.MustRegister(f)
}

// takes reports whether the algorithm has a stage.
func (f *family) takes(x stage.Stage) bool {
	switch x.(type) {
	case stage.Ranking:
		return f.form.Ranks
	case stage.Statistics:
		return f.form.LearnsItems
	default:
		return true
	}
}

// complete adds the fields that all algorithms of the package share.
func (f *family) complete() {
	a := &f.about
	a.Clients, a.Noise, a.Private, a.ByUser = algorithm.Users, algorithm.DistributedNoise, true, true
	a.Units, a.Relation = []dp.Unit{dp.User}, dp.ZeroOut
	a.OtherUnit = "a user of " + a.Name + " fits u_i to all its ratings, and multiplies every row that it contributes to by it, so one rating moves all of them; " +
		"the guarantee for a rating is no better than the stated one for a user (theorem 1 of the am-ssp paper takes u_i as given)"
	x := &f.form
	x.Name, x.Features = a.Name, a.Features != algorithm.NoFeatures
	x.Ranks, x.LearnsItems = !x.OnScale, len(x.Solvers) > 0
	a.Keys = f.keys()
	a.Rank = func(c config.Config) float64 { return settings.Of(c).Rank() }
	a.RankOf = func(c config.Config, facts *config.Facts) config.Number {
		return settings.Of(c).Decided(facts).RankOf(facts)
	}
	a.Rounds = func(c config.Config) float64 { return settings.Of(c).OuterSteps(nil) }
	a.RoundsOf = func(c config.Config, facts *config.Facts) float64 {
		return settings.Of(c).Decided(facts).OuterSteps(facts)
	}
	a.Sums = func(c config.Config) int { return settings.Of(c).Sums() }
	a.CheckFeedback = func(c config.Config) string {
		if !x.Ranks && settings.Of(c).Implicit() {
			return fmt.Sprintf("%s is about ratings on a scale; it takes explicit feedback", a.Name)
		}
		return ""
	}
}
