package fedssp

import (
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/fedssp/stage"
)

// keys returns the keys of every run with clients, and the keys of the algorithm's stages and
// solvers.
func (f *family) keys() []*config.Key {
	list := slices.Concat(algorithm.Federated(), []*config.Key{algorithm.NoiseDraw.Key})
	own := slices.Concat(settings.WeighingKeys(), []*config.Key{settings.Keys.OrderWeight.Key})
	if f.about.Features != algorithm.NoFeatures {
		list = append(list, algorithm.FeatureSpec.Key)
		own = append(own, settings.Keys.UserFeatureWeight.Key)
	}
	if f.form.Starts {
		list, own = append(list, algorithm.StartFrom.Key), append(own, settings.Keys.StartDecay.Key)
	}
	if f.form.LearnsItems {
		list = append(list, algorithm.Rounds.Key, algorithm.Rank.Key)
	}
	if f.form.Ranks {
		list = append(list, algorithm.Feedback.Key, algorithm.Positive.Key, algorithm.SplitLeast.Key, algorithm.SplitTarget.Key, algorithm.SplitUsers.Key)
	}
	if f.form.LearnsItems && f.form.Ranks {
		own = append(own, settings.Keys.Learn.Key, settings.Keys.Unobserved.Key)
	}
	if !f.form.Offers(func(x kernel.Traits) bool { return x.FirstOrder }) {
		own = append(own, settings.Keys.Broadcast.Key)
	}
	for _, x := range stage.All {
		if f.takes(x) {
			own = append(own, x.Keys()...)
		}
	}
	for _, x := range f.form.Solvers {
		own = append(own, x.(solver.Solver).Keys()...)
	}
	return append(list, slices.DeleteFunc(config.Keys(), func(k *config.Key) bool { return !slices.Contains(own, k) })...)
}
