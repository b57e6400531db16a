package stage

import (
	"slices"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Undone scales sums over batches to all users: every statistic and its noise by 1/q. Weight counts
// cover all users already and stay.
func Undone(p *kernel.Params, r serving.Absorbed) serving.Absorbed {
	if !p.Batched() {
		return r
	}
	for name, x := range r.Values {
		if name != kernel.WeightCounts {
			r.Values[name], r.Noise[name] = dense.Scaled(x, 1/p.SamplingRate), r.Noise[name]/p.SamplingRate
		}
	}
	return r
}

// Sampled marks the releases that the coin decides on as sampled. Weight counts cover all users and
// stay.
func Sampled(p *kernel.Params, steps []protocol.Step) {
	for i := range steps {
		if !p.Batched() || steps[i].Phase != kernel.Statistics {
			continue
		}
		for k := range steps[i].Releases {
			if r := &steps[i].Releases[k]; kernel.InStatistics(r.Name) {
				r.Noise.SamplingRate = p.SamplingRate
			}
		}
	}
}

// Steps returns the schedule: at most one preparation, then the steps that each stage adds. Bounds
// of the releases hold by construction. Scale, width and noise are left to be set. An error lists
// the faults of the settings.
func Steps(p kernel.Params) ([]kernel.Step, error) {
	if err := Validate(p); err != nil {
		return nil, err
	}
	steps := stepsOf(&p)
	normalise(steps)
	return steps, nil
}

// stepsOf is Steps for valid settings, before shares are normalised.
func stepsOf(p *kernel.Params) []kernel.Step {
	to := &schedule{prepare: kernel.Step{Phase: kernel.Prepare}}
	for _, x := range All {
		x.appendReleases(p, to)
	}
	steps := to.steps
	if to.prepare.Releases != nil {
		steps = slices.Insert(steps, 0, to.prepare)
	}
	return steps
}

// normalise makes the shares of all releases add up to 1.
func normalise(steps []kernel.Step) {
	var sum float64
	for _, s := range steps {
		for _, x := range s.Shares {
			sum += x
		}
	}
	for _, s := range steps {
		for i := range s.Shares {
			s.Shares[i] /= sum
		}
	}
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

// ClientSides returns the client's parts of the stages of a run with these settings, which must be
// valid.
func ClientSides(p *kernel.Params) user.Stages {
	lengths := map[string]int{}
	for _, step := range stepsOf(p) {
		for _, r := range step.Releases {
			lengths[r.Name] = r.Len
		}
	}
	return func(release string) (user.Stage, int) {
		return All[slices.IndexFunc(All, func(x Stage) bool { return x.owns(release) })], lengths[release]
	}
}
