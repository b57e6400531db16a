package kernel

import (
	"github.com/fedsim/fedsim/protocol"
)

// InStatistics reports whether the coin decides if a user contributes to the release.
func InStatistics(name string) bool {
	switch name {
	case Counts, Mean, Bias, WeightCounts:
		return false
	default:
		return true
	}
}

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

// Add adds a release that takes a share of the run's μ².
func (s *Step) Add(r protocol.Release, share float64) {
	s.Releases, s.Shares = append(s.Releases, r), append(s.Shares, share)
}
