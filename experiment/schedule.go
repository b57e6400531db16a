package experiment

import (
	"fmt"
	"iter"
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// Schedule is what the iterations of a run ask for, in order.
type Schedule []Step

// Step is iterations one after the other that ask for the same.
type Step struct {
	Iterations int    // at least 1
	Phase      string // as in their plans
	// Releases are at least one, noise included.
	Releases []protocol.Release
	// Model is the length in bytes of the model that comes with a plan, at the most, and
	// of the last step of the final one, too.
	Model int
}

// alike reports whether two steps ask for the same.
func (s Step) alike(o Step) bool {
	return s.Phase == o.Phase && s.Model == o.Model && slices.Equal(s.Releases, o.Releases)
}

// Iterations is T, how many iterations there are.
func (s Schedule) Iterations() int {
	n := 0
	for _, step := range s {
		n += step.Iterations
	}
	return n
}

// Model is the length in bytes of the longest model that is ever sent.
func (s Schedule) Model() int {
	n := 0
	for _, step := range s {
		n = max(n, step.Model)
	}
	return n
}

// at is the step that an iteration, counted from 1, belongs to; nil if there is no
// such iteration.
func (s Schedule) at(iteration uint64) *Step {
	if iteration == 0 {
		return nil
	}
	for i := range s {
		n := uint64(s[i].Iterations)
		if iteration <= n {
			return &s[i]
		}
		iteration -= n
	}
	return nil
}

// clone shares nothing with the schedule.
func (s Schedule) clone() Schedule {
	out := slices.Clone(s)
	for i := range out {
		out[i].Releases = slices.Clone(out[i].Releases)
	}
	return out
}

// releases runs over those of all steps, to change in place.
func (s Schedule) releases() iter.Seq2[*Step, *protocol.Release] {
	return func(yield func(*Step, *protocol.Release) bool) {
		for i := range s {
			for j := range s[i].Releases {
				if !yield(&s[i], &s[i].Releases[j]) {
					return
				}
			}
		}
	}
}

// vectors is how many releases there are over the run, and coordinates how many
// coordinates they have together.
func (s Schedule) vectors() (vectors, coordinates int) {
	for step, r := range s.releases() {
		vectors += step.Iterations
		coordinates += step.Iterations * r.Len
	}
	return vectors, coordinates
}

// uniform reports whether every iteration releases the same one vector. Parties with
// noise of their own may take more steps in the last.
func (s Schedule) uniform() bool {
	first := s[0].Releases[0]
	for _, step := range s {
		if len(step.Releases) != 1 || step.Phase != s[0].Phase {
			return false
		}
		r := step.Releases[0]
		if r.Noise.Steps = first.Noise.Steps; r != first {
			return false
		}
	}
	return true
}

// endWith has the last iteration take so many local steps.
func (s *Schedule) endWith(steps int) {
	last := (*s)[len(*s)-1]
	last.Releases = slices.Clone(last.Releases)
	for i := range last.Releases {
		last.Releases[i].Noise.Steps = steps
	}
	if last.Iterations == 1 {
		(*s)[len(*s)-1] = last
		return
	}
	(*s)[len(*s)-1].Iterations--
	last.Iterations = 1
	*s = append(*s, last)
}

// first is the first release, which stands for all of a schedule that is uniform.
func (s Schedule) first() *protocol.Release { return &s[0].Releases[0] }

// noise is who noises the sums of the run: all of them are noised alike.
func (s Schedule) noise() protocol.Noise { return s.first().Noise }

// uniformly is the schedule of a run whose iterations all release r, whose name is
// that of the phase, too.
func (e *Experiment) uniformly(r protocol.Release, model int) Schedule {
	return Schedule{{Iterations: e.Config.rounds(), Phase: r.Name, Releases: []protocol.Release{r}, Model: model}}
}

// plan is what an iteration asks for, but for the model; nil if there is no such
// iteration.
func (e *Experiment) plan(iteration uint64) *protocol.Plan {
	step := e.Steps.at(iteration)
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
