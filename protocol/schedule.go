package protocol

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/problems"
)

// Schedule lists the requests of the rounds of a run, in order. It is public: all parties know it before the first plan.
type Schedule []Step

// Step is a number of consecutive rounds that ask for the same.
type Step struct {
	Rounds int    `json:"rounds"` // at least 1
	Phase  string `json:"phase"`  // as in their plans
	// Releases are at least one, noise included.
	Releases []Release `json:"releases"`
	// Model is an upper limit of the length in bytes of the model that comes with a plan. For the
	// last step it covers the final model, too.
	Model int `json:"model_bytes"`
}

// Alike reports whether two steps ask for the same, in however many rounds.
func (s Step) Alike(o Step) bool {
	return s.Phase == o.Phase && s.Model == o.Model && slices.Equal(s.Releases, o.Releases)
}

// maxModel bounds the length of a model: far beyond what is ever sent.
const maxModel = 1 << 30

// Validate reports everything that makes the schedule unusable, except for its releases:
// plans check those, together with the cohort.
func (s Schedule) Validate() error {
	var errs problems.List
	errs.If(len(s) == 0, "the schedule has no steps")
	total := 0
	for i, step := range s {
		switch {
		case step.Rounds < 1:
			errs = append(errs, fmt.Errorf("step %d has %d rounds; there must be at least 1", i+1, step.Rounds))
		case step.Rounds > math.MaxInt32-total:
			errs = append(errs, fmt.Errorf("step %d has %d rounds; there may be %d in all", i+1, step.Rounds, math.MaxInt32))
		default:
			total += step.Rounds
		}
		errs.If(step.Model < 0 || step.Model > maxModel,
			"step %d has a model of %d bytes; there may be from 0 to %d", i+1, step.Model, maxModel)
		errs.If(len(step.Releases) == 0, "step %d releases nothing", i+1)
	}
	return errors.Join(errs...)
}

// Rounds is T, how many rounds there are.
func (s Schedule) Rounds() int {
	n := 0
	for _, step := range s {
		n += step.Rounds
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

// At is the step that a round, counted from 1, belongs to; nil if there is no such round.
func (s Schedule) At(round uint64) *Step {
	if round == 0 {
		return nil
	}
	for i := range s {
		n := uint64(s[i].Rounds)
		if round <= n {
			return &s[i]
		}
		round -= n
	}
	return nil
}

// Clone shares nothing with the schedule.
func (s Schedule) Clone() Schedule {
	out := slices.Clone(s)
	for i := range out {
		out[i].Releases = slices.Clone(out[i].Releases)
	}
	return out
}

// All runs over the releases of all steps, to change in place.
func (s Schedule) All() iter.Seq2[*Step, *Release] {
	return func(yield func(*Step, *Release) bool) {
		for i := range s {
			for j := range s[i].Releases {
				if !yield(&s[i], &s[i].Releases[j]) {
					return
				}
			}
		}
	}
}

// Vectors counts the vectors that are released over the run, and their coordinates together.
func (s Schedule) Vectors() (vectors, coordinates int) {
	for step, r := range s.All() {
		vectors += step.Rounds
		coordinates += step.Rounds * r.Len
	}
	return vectors, coordinates
}

// Uniform reports whether every round releases the same single vector. Parties that
// noise their own training may take more steps in the last.
func (s Schedule) Uniform() bool {
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

// EndWith has parties that noise their own training take this many local steps in the last round.
func (s *Schedule) EndWith(steps int) {
	last := (*s)[len(*s)-1]
	last.Releases = slices.Clone(last.Releases)
	for i := range last.Releases {
		last.Releases[i].Noise.Steps = steps
	}
	if last.Rounds == 1 {
		(*s)[len(*s)-1] = last
		return
	}
	(*s)[len(*s)-1].Rounds--
	last.Rounds = 1
	*s = append(*s, last)
}

// First is the first release, which stands for all of a schedule that is uniform.
func (s Schedule) First() *Release { return &s[0].Releases[0] }

// Noise is the noise of the first release. All releases of a run have its kind.
func (s Schedule) Noise() Noise { return s.First().Noise }

// Charges returns the charges of all attempts after the first past ones, together, for a client with as many turns of each step as a
// client can have ([Cohort.Turns]).
func (s Schedule) Charges(c Cohort, past, attempts int) ([]dp.Event, error) {
	all := []dp.Event{}
	for _, step := range s {
		n := min(attempts, step.Rounds)
		skipped := min(past, n)
		attempts, past = attempts-n, past-skipped
		if n -= skipped; n == 0 {
			continue
		}
		p := &Plan{Cohort: c, Phase: step.Phase, Releases: step.Releases}
		one, err := p.Charges()
		if err != nil {
			return nil, err
		}
		for _, e := range one {
			all = append(all, e.Times(c.Turns(n)))
		}
	}
	return all, nil
}
