package audit

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
)

// steps watches all noised steps of a run, of parties that noise their own training. Everything
// that leaves a party follows from these steps.
func (a *auditor) steps(world int, sources func(party string) entropy.Source) (view, error) {
	var v view
	n := a.e.Schedule.Noise()
	watcher := a.e.Instance().(algorithm.StepWatcher)
	parties := 1
	if n.Spread {
		parties = a.e.Cohort.Clients
	}
	for k, kind := range watcher.LocalSteps() {
		for p := range parties {
			next, err := watcher.Watch(k, world == 1, sources(fmt.Sprintf("party/%d/%d", k, p)))
			if err != nil {
				return v, err
			}
			for range kind.Count {
				x, err := next()
				if err != nil {
					return v, err
				}
				v.likelihood += sampledRatio(x, n.Multiplier, n.SamplingRate)
				v.feature[inputs] += x
				v.pulls = append(v.pulls, pull{x, n.Multiplier, n.SamplingRate})
			}
		}
	}
	return v, nil
}

// sampledRatio is the logarithm of how much likelier x is with the unit there, which is 1 in a
// share q of the samples, than without, under normal noise of deviation z.
func sampledRatio(x, z, q float64) float64 {
	return math.Log1p(q * math.Expm1((2*x-1)/(2*z*z)))
}

// watchable refuses an experiment whose parties' steps cannot be watched.
func watchable(a algorithm.Instance, name string) error {
	if _, ok := a.(algorithm.StepWatcher); !ok {
		return config.Errorf("the parties of %s noise their own training, and its steps cannot be watched (algorithm.StepWatcher)", name)
	}
	return nil
}
