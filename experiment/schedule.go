package experiment

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// Schedule is what the iterations of a run ask for, in order.
type Schedule = protocol.Schedule

// uniformly is the schedule of a run whose iterations all release r, whose name is
// that of the phase, too.
func (e *Experiment) uniformly(r protocol.Release, model int) Schedule {
	return Schedule{{Iterations: e.Config.rounds(), Phase: r.Name, Releases: []protocol.Release{r}, Model: model}}
}

// plan is what an iteration asks for, but for the model; nil if there is no such
// iteration.
func (e *Experiment) plan(iteration uint64) *protocol.Plan {
	step := e.Steps.At(iteration)
	if step == nil {
		return nil
	}
	return &protocol.Plan{Session: e.session, Iteration: iteration, Phase: step.Phase, Cohort: e.Cohort, Releases: slices.Clone(step.Releases)}
}

// plans are those of the first iteration of every step, but for the model.
func (e *Experiment) plans() []*protocol.Plan {
	list := make([]*protocol.Plan, len(e.Steps))
	iteration := uint64(1)
	for i, step := range e.Steps {
		list[i] = e.plan(iteration)
		iteration += uint64(step.Iterations)
	}
	return list
}

// releaseText is a release as session IDs have it: field by field, so that one more field
// does not change what a seed draws.
func releaseText(r protocol.Release) string {
	n := r.Noise
	return fmt.Sprintf("{Name:%s Len:%d L2:%v L1:%v MaxNonZero:%d Scale:%v Width:%d Noise:{Kind:%s Variance:%v}}",
		r.Name, r.Len, r.L2, r.L1, r.MaxNonZero, r.Scale, r.Width, n.Kind, n.Variance)
}
