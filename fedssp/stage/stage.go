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

// Stage is one kind of release with everything that belongs to it. Each stage has one file: its
// settings and their ranges, the bound of its releases and the proof, the client's computation, and
// the server's use of the sum. [All] lists them.
type Stage interface {
	// Keys returns the keys that have an effect on the stage.
	Keys() []*config.Key
	// Read takes the stage's settings from a configuration in which nothing is open.
	Read(*kernel.Params, settings.Settings)
	// check adds errors about the settings of this stage.
	check(*kernel.Params, *settings.Problems)
	// ask adds the stage's releases and their shares of μ², if the settings have the stage.
	ask(*kernel.Params, *schedule)
	// answers reports whether the release of a name belongs to this stage.
	answers(release string) bool
	user.Stage
	serving.Stage
}

// All lists everything a run may release, in the order of the releases. The settings choose
// among them.
var All = []Stage{Counting{}, Averaging{}, Biasing{}, Ranking{}, Statistics{}}

// ServerSides lists the server's parts of all stages.
var ServerSides = func() (list []serving.Stage) {
	for _, x := range All {
		list = append(list, x)
	}
	return list
}()

// ClientSideOf returns the client's part of the stage of a release.
func ClientSideOf(release string) user.Stage { return stageOf(release) }

// stageOf returns the stage of a release. The last stage refuses an unknown name, because its
// solver has no such release.
func stageOf(release string) Stage {
	for _, x := range All {
		if x.answers(release) {
			return x
		}
	}
	return Statistics{}
}
