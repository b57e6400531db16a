package fedssp

import "github.com/fedsim/fedsim/config"

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
	// answers reports whether the release of a name belongs to this stage.
	answers(release string) bool
	clientStage
	serverStage
}

// stages lists everything a run may release, in the order of the releases. The settings choose
// among them.
var stages = []stage{counting{}, averaging{}, biasing{}, ranking{}, statistics{}}

// serverStages lists the server's parts of all stages.
var serverStages = func() (list []serverStage) {
	for _, x := range stages {
		list = append(list, x)
	}
	return list
}()

// clientStageOf returns the client's part of the stage of a release.
func clientStageOf(release string) clientStage { return stageOf(release) }

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
