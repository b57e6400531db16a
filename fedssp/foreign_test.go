package fedssp

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/lab/ssp/steps"
)

// Tests of this package run two algorithms whose solvers another package brings, as package lab/ssp registers them. That package
// imports this one.
func init() {
	Register(algorithm.About{Name: "ssp-convex", Help: "a convex loss", Features: algorithm.TakesFeatures},
		settings.Form{Solvers: []settings.Solver{steps.Convex, steps.EncodedConvex}, Ours: true, OnScale: true})
	Register(algorithm.About{Name: "dpsgd", Help: "gradient steps"}, settings.Form{Solvers: []settings.Solver{steps.Gradient}, Sampled: true, OnScale: true})
}
