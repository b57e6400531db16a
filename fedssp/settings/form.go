// Package settings says what a configuration means for the family. It has the keys with their ranges
// and defaults, the values of auto, and the decisions that follow from several keys: which solver,
// whether biases come first, how much of the budget a release gets. A range stands in the declaration
// of its key and nowhere else: the checks of stages and solvers read it there.
//
// It imports kernel for the words of settings. It never imports the rooms that compute: user,
// serving, solver, stage. Keys of one solver alone stand in that solver's file.
package settings

import (
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
)

// Settings is a configuration of one of these algorithms with methods for the decisions that follow
// from it. The methods give the same answers before and after every auto is replaced.
type Settings struct{ config.Config }

// Form holds the differences between the algorithms of the family that settings depend on.
type Form struct {
	Name               string          // of the algorithm; "": none of the family
	Solvers            []kernel.Solver // the solvers that the settings may choose
	Features           bool            // the algorithm takes public features
	Ranks, LearnsItems bool            // it takes implicit feedback; it learns embeddings of items
	Ours               bool            // it departs from every paper
	Sampled            bool            // by default a user sends some of its ratings
	Weighted           bool            // by default ratings of rare items weigh more
	Dense              bool            // the encoder is the paper's: a dense layer, and no embedding for an item's id
	Resampled          bool            // by default every step of the solver uses fresh statistics
	Starts             bool            // a session can start from the sums of earlier sessions
}

// Formed is an algorithm of the family.
type Formed interface{ FormOf() *Form }

// form returns the form of the algorithm. If the configuration names another package's algorithm it
// returns a form without features, so that no key here has an effect.
func (s Settings) form() *Form {
	if f, ok := algorithm.Of(s.Config).(Formed); ok {
		return f.FormOf()
	}
	return &Form{Ranks: true, LearnsItems: true}
}

// has reports whether the settings may choose the solver of a name.
func (f *Form) has(name string) bool {
	return slices.ContainsFunc(f.Solvers, func(x kernel.Solver) bool { return x.String() == name })
}

// fixed returns the algorithm's solver; nil if the settings choose it, or there is none.
func (f *Form) fixed() kernel.Solver {
	if len(f.Solvers) == 1 {
		return f.Solvers[0]
	}
	return nil
}

// These names of solvers stand in conditions of other settings.
const (
	NamedALS         = "als"
	NamedPooled      = "pooled"
	NamedVariational = "variational"
	NamedCMF         = "cmf"
	NamedEncoded     = "encoder"
	NamedConvex      = "convex"
	NamedGradient    = "gradient"
	NamedJoint       = "joint"
)

// Of returns the decisions that follow from a configuration.
func Of(c config.Config) Settings { return Settings{c} }
