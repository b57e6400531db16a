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
	Name               string   // of the algorithm; "": none of the family
	Solvers            []Solver // the settings choose the last that serves; an only solver always serves
	Features           bool     // the algorithm takes public features
	OnScale            bool     // it takes no implicit feedback
	Ranks, LearnsItems bool     // it takes implicit feedback; it learns embeddings of items. Both follow from the other fields
	Ours               bool     // it departs from every paper
	Sampled            bool     // by default a user sends some of its ratings
	Weighted           bool     // by default ratings of rare items weigh more
	Dense              bool     // the encoder is the paper's: a dense layer, and no embedding for an item's id
	Resampled          bool     // by default every step of the solver uses fresh statistics
	Starts             bool     // a session can start from the sums of earlier sessions
}

// formed is an algorithm of the family.
type formed interface{ FormOf() *Form }

// form returns the form of the algorithm. If the configuration names another package's algorithm it
// returns a form without features, so that no key here has an effect.
func (s Settings) form() *Form {
	if f, ok := algorithm.Of(s.Config).(formed); ok {
		return f.FormOf()
	}
	return &Form{Ranks: true, LearnsItems: true}
}

// Solver is a solver with its answers to the settings. Each solver gives them in its own file.
type Solver interface {
	kernel.Solver
	// Serves reports whether an algorithm with several solvers takes this one.
	Serves(Settings) bool
	// Loss returns facts about the loss of the settings.
	Loss(Settings) Loss
	// Defaults returns the values of auto that the solver chooses itself.
	Defaults(Settings) SolverDefaults
}

// Loss holds facts about the loss of a rating. The zero value describes the squared error.
type Loss struct {
	Limited bool // the loss limits the influence of a rating, so residuals are not clipped
	Logits  bool // predictions are logits
}

// SolverDefaults holds values of auto that differ by solver; 0 leaves a value to the rule of all
// solvers.
type SolverDefaults struct{ Rounds, Resample, UserRidge, ItemPrior, StartNorm, EncoderRate float64 }

// Offers reports whether the settings may choose a solver with a property.
func (f *Form) Offers(property func(kernel.Traits) bool) bool {
	return slices.ContainsFunc(f.Solvers, func(x Solver) bool { return property(x.Traits()) })
}

// fixed returns the algorithm's solver; nil if the settings choose it, or there is none.
func (f *Form) fixed() Solver {
	if len(f.Solvers) == 1 {
		return f.Solvers[0]
	}
	return nil
}

// Of returns the decisions that follow from a configuration.
func Of(c config.Config) Settings { return Settings{c} }
