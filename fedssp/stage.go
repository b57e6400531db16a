package fedssp

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/protocol"
)

// stage is one kind of release with everything that belongs to it. Each stage has one file: its
// settings and their ranges, the bound of its releases and the proof, the client's computation, and
// the server's use of the sum. [stages] lists them.
type stage interface {
	// keys returns the keys that have an effect on the stage.
	keys() []*config.Key
	// read takes the stage's settings from a configuration in which nothing is open.
	read(*Params, settings)
	// check adds errors about the settings of this stage.
	check(*Params, *problems)
	// ask adds the stage's releases and their shares of μ², if the settings have the stage.
	ask(*Params, *schedule)
	// answers reports whether the release of a name belongs to this stage. length counts its
	// coordinates; 0: the settings have no release of that name.
	answers(release string) bool
	length(p *Params, release string) int
	// beforeChoice reports whether the stage covers the whole catalogue, and may come before the
	// items to train on are chosen.
	beforeChoice(*Params) bool
	// contribute computes a client's addition to a sum.
	contribute(*contribution, protocol.Release) (protocol.Vector, error)
	// takes reports whether sums of a phase belong to this stage. absorb takes in such a sum.
	takes(phase string) bool
	absorb(*Strategy, absorbed, protocol.Runner) error
}

// stageOf returns the stage of a release. The last stage refuses an unknown name, because its
// solver has no such release.
func stageOf(release string) stage {
	for _, x := range stages {
		if x.answers(release) {
			return x
		}
	}
	return statistics{}
}
