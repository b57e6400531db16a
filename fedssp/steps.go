package fedssp

import (
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// Phases of a run.
const (
	Prepare    = "prepare"
	BiasStage  = "bias"
	Refine     = "refine"
	Popularity = "popularity"
	Statistics = "statistics"
)

// Names of the releases.
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

// Step is one round of the run: what is asked, and what share of the run's μ² each release
// takes. Shares of all steps add up to 1.
type Step struct {
	Phase    string
	Releases []protocol.Release
	Shares   []float64
}

// commonShare is the part of a sum's second-order share that the Gramian over all users takes where
// implicit feedback releases it beside those of the items: it sums over everybody and needs
// next to nothing.
const commonShare = 0.1

func (s *Step) add(r protocol.Release, share float64) {
	s.Releases, s.Shares = append(s.Releases, r), append(s.Shares, share)
}

// Steps is the schedule: at most one preparation, then what each stage adds. Bounds of the releases hold by construction; scale, width and
// noise are left to be set. An error says what is wrong with the settings.
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

// schedule is what stages add their releases to: to the preparation that comes first, or as steps of their own.
type schedule struct {
	prepare Step
	steps   []Step
}

// normalise makes the shares of what is released add up to 1.
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

// atMost is a norm that is bounded as it is, and by the settings if they say one.
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

// rows is a release of a row of the given length for each item that is trained on, of which one user's has norm at
// most w_j·bound.
func (p *Params) rows(name string, length int, bound float64) protocol.Release {
	return p.rowsOf(p.trained(), name, length, bound)
}

func (p *Params) rowsOf(items int, name string, length int, bound float64) protocol.Release {
	return protocol.Release{Name: name, Len: items * length, L2: bound, LInf: bound, MaxNonZero: p.mostRated(items) * length}
}

// mostRated is how many of the items a user contributes to at most. Without sampling it is all of them:
// how many a user rated is private: it must not show in the plan or in a message's length.
func (p *Params) mostRated(items int) int {
	if p.Budgeting == Weights {
		return items
	}
	return min(p.PerUser, items)
}

// length is how many coordinates the release of a name has; 0: there is none of that name.
func (p *Params) length(name string) int { return stageOf(name).length(p, name) }
