package fedssp

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/protocol"
)

// stage is one kind of release with everything that belongs to it. Each stage has one file: its settings and what they may be, the bound of what
// it asks for and the proof, what a client computes, and what the server makes of the sum. [stages] lists them.
type stage interface {
	// keys are the keys that have an effect on the stage.
	keys() []*config.Key
	// read takes the stage's settings from a configuration in which nothing is open.
	read(*Params, settings)
	// check adds what is wrong with the settings for this stage.
	check(*Params, *problems)
	// ask adds the stage's releases and their shares of μ², if the settings have it.
	ask(*Params, *schedule)
	// answers reports whether the release of a name is of this stage, length how many coordinates it has; 0: the settings have none of that name.
	answers(release string) bool
	length(p *Params, release string) int
	// beforeChoice reports whether the stage is of the whole catalogue, and may come before it is known which items are trained on.
	beforeChoice(*Params) bool
	// contribute is what a client adds to a sum.
	contribute(*contribution, protocol.Release) (protocol.Vector, error)
	// takes reports whether sums of a phase are of this stage, absorb takes in such a sum.
	takes(phase string) bool
	absorb(*Strategy, absorbed, protocol.Runner) error
}

// stageOf is the stage of a release; an unknown name is refused by the last stage, whose solver has no such release.
func stageOf(release string) stage {
	for _, x := range stages {
		if x.answers(release) {
			return x
		}
	}
	return statistics{}
}
