// Package stage has the releases of a run, one file a stage: the bound and its proof, what a client
// contributes, and what the server makes of the sum. [Steps] is the schedule of all stages, and
// [Validate] checks their settings.
//
// It imports kernel, settings, both sides and solver, and never the registration of algorithms.
package stage

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/user"
)

// schedule collects the releases of stages: those in the preparation, which comes first, and those
// in steps of their own.
type schedule struct {
	prepare kernel.Step
	steps   []kernel.Step
}

// Stage is one kind of release with everything that belongs to it. Each stage has one file: its
// settings and their ranges, the bound of its releases and the proof, the client's computation, and
// the server's use of the sum. [All] lists them.
type Stage interface {
	// Keys returns the keys that have an effect on the stage.
	Keys() []*config.Key
	// Read takes the stage's settings from a configuration in which nothing is open.
	Read(*kernel.Params, settings.Settings)
	// appendReleases adds the stage's releases and their shares of μ², if the settings have the stage.
	appendReleases(*kernel.Params, *schedule)
	// owns reports whether the release of a name belongs to this stage.
	owns(release string) bool
	user.Stage
	serving.Stage
}
