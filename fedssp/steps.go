package fedssp

import (
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// These are the phases of a run.
const (
	Prepare    = "prepare"
	BiasStage  = "bias"
	Refine     = "refine"
	Popularity = "popularity"
	Statistics = "statistics"
)

// These are the names of the releases.
const (
	Counts       = "counts"
	Mean         = "mean"
	Bias         = "bias"
	WeightCounts = "weight-counts"
	Gramian      = "gramian"
	Gramians     = "gramians"
	Moments      = "moments"
	Hessians     = "hessians"
	Gradients    = "gradients"
	ByEncoder    = "encoder-gradient"

	SecondMoments = "second-moments"
	FirstMoments  = "first-moments"
	Scales        = "scales"
)

// Step is one round of the run: its releases, and the share of the run's μ² that each takes.
// Shares of all steps add up to 1.
type Step struct {
	Phase    string
	Releases []protocol.Release
	Shares   []float64
}

// commonShare is the part of a sum's second-order share for the Gramian over all users, if implicit
// feedback releases it beside the items' Gramians. It sums over all users and needs very little.
const commonShare = 0.1

func (s *Step) add(r protocol.Release, share float64) {
	s.Releases, s.Shares = append(s.Releases, r), append(s.Shares, share)
}

// Steps returns the schedule: at most one preparation, then the steps that each stage adds. Bounds
// of the releases hold by construction. Scale, width and noise are left to be set. An error lists
// the faults of the settings.
func (p Params) Steps() ([]Step, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	to := &schedule{prepare: Step{Phase: Prepare}}
	for _, x := range stages {
		x.ask(&p, to)
	}
	steps := to.steps
	if to.prepare.Releases != nil {
		steps = slices.Insert(steps, 0, to.prepare)
	}
	normalise(steps)
	return steps, nil
}

// schedule collects the releases of stages: those in the preparation, which comes first, and those
// in steps of their own.
type schedule struct {
	prepare Step
	steps   []Step
}

// normalise makes the shares of all releases add up to 1.
func normalise(steps []Step) {
	var sum float64
	for _, s := range steps {
		for _, x := range s.Shares {
			sum += x
		}
	}
	for _, s := range steps {
		for i := range s.Shares {
			s.Shares[i] /= sum
		}
	}
}

// atMost is the smaller of a norm and the settings' bound; bound 0 means none.
func atMost(norm, bound float64) float64 {
	if norm == 0 {
		return bound
	}
	return min(norm, bound)
}

// targetBound is the largest target of a rating.
func (p *Params) targetBound() float64 {
	if p.Feedback == Implicit {
		return 1
	}
	return p.ClipRating
}

// rows is a release with a row of the given length for each item that is trained on. One user's row
// has norm at most w_j·bound.
func (p *Params) rows(name string, length int, bound float64) protocol.Release {
	return p.rowsOf(p.trained(), name, length, bound)
}

func (p *Params) rowsOf(items int, name string, length int, bound float64) protocol.Release {
	return protocol.Release{Name: name, Len: items * length, L2: bound, LInf: bound, MaxNonZero: p.mostRated(items) * length}
}

// mostRated is the most items that a user contributes to. Without sampling it is all of them: the
// number of a user's ratings is private, and must not show in the plan or in a message's length.
func (p *Params) mostRated(items int) int {
	if p.Budgeting == Weights {
		return items
	}
	return min(p.PerUser, items)
}

// length counts the coordinates of the release of a name; 0: there is no such release.
func (p *Params) length(name string) int { return stageOf(name).length(p, name) }
