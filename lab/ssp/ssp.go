// Package ssp registers the algorithms that the papers on sufficient statistics compare their own with: gradient steps, plain DP-SGD,
// and statistics of a convex loss. Package steps has their solvers; package tasks is a library beside the runs.
package ssp

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/fedssp"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/lab/ssp/steps"
)

func init() {
	for _, x := range []struct {
		about algorithm.About
		form  settings.Form
	}{
		{
			about: algorithm.About{Name: "ssp-convex", Help: "sufficient statistics of a convex loss, by its second-order expansion", Paper: "AM-SSP, algorithm 7",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{steps.Convex, steps.EncodedConvex}, Ours: true, OnScale: true},
		},
		{
			about: algorithm.About{Name: "dpsgd", Help: "private gradient steps on items, over a capped number of ratings of each user", Paper: "multi-task, table 2"},
			form:  settings.Form{Solvers: []settings.Solver{steps.Gradient}, OnScale: true, Sampled: true},
		},
		{
			about: algorithm.About{Name: "ada-dpsgd", Help: "dpsgd on all ratings, weighted in favour of rare items", Paper: "multi-task, algorithm 2"},
			form:  settings.Form{Solvers: []settings.Solver{steps.Gradient}, OnScale: true, Weighted: true},
		},
		{
			about: algorithm.About{Name: "am-dpsgd", Help: "am-ssp with sums of gradients of its encoder in place of statistics", Paper: "AM-SSP, algorithm 6",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{steps.EncoderGradient}, OnScale: true, Weighted: true, Dense: true},
		},
		{
			about: algorithm.About{Name: "dp-sgd-mf", Help: "plain DP-SGD on all parameters of am-dpsgd at once, users' among them", Paper: "AM-SSP, E.1.5",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{steps.Joint}, OnScale: true, Weighted: true, Dense: true},
		},
	} {
		fedssp.Register(x.about, x.form)
	}
}
