package kernel

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// AverageParams holds the settings of the server's side of VFL- and HFL-SGDMF.
type AverageParams struct {
	PartyParams
	// Start is where the shared embeddings start: U for VFL, V for HFL.
	Start *model.Matrix
	// Gradients makes parties send normalised gradients of the shared embeddings instead of the
	// embeddings (HFL-synSGD); the server takes the step.
	Gradients bool
	Session   protocol.SessionID
	Cohort    protocol.Cohort
	Release   protocol.Release // of PartyParams.Release, with width and the noise of one local step set
}

// Average is the server's side of VFL- and HFL-SGDMF, a server.Durable. It averages the versions of
// the shared embeddings, by weight, over the parties that took part (FMF paper, figure 3, step s2).
type Average struct {
	strategy
	params AverageParams
}

// NewAverage makes the strategy, with the shared embeddings at their start.
func NewAverage(p AverageParams) (*Average, error) {
	errs := []error{p.Validate(), p.Cohort.Validate(), p.Release.Validate()}
	if p.Start == nil || p.Start.Rows()*p.Start.Cols()+1 != p.Release.Len {
		errs = append(errs, fmt.Errorf("the start does not have the %d coordinates of the release", p.Release.Len-1))
	}
	if k := p.Release.Noise.Kind; k != protocol.PartyNoise && k != protocol.NoNoise {
		errs = append(errs, fmt.Errorf("noise is %s; parties noise their own steps or not at all", k))
	}
	if p.Gradients && p.LocalSteps != 1 {
		errs = append(errs, fmt.Errorf("local-steps is %d; it must be 1, since the server averages the gradient of a single step", p.LocalSteps))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Average{strategy{domain: averageState, session: p.Session, rounds: p.Rounds, shared: p.Start.Clone()}, p}, nil
}

// Next returns the plan of the next round, and true after the last.
func (s *Average) Next() (*protocol.Plan, bool, error) {
	r := s.params.Release
	if r.Noise.Kind == protocol.PartyNoise {
		r.Noise.Steps = s.params.StepsOf(s.round + 1)
	}
	return s.next(Shared, s.params.Cohort, r)
}

// Absorb averages the sums into the shared embeddings. If no weight was sent (every party failed to
// train), the embeddings stay.
func (s *Average) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	sum, d := sums.Values[0], s.shared.Cols()
	weight := sum[len(sum)-1]
	if !(weight > 0) {
		return nil
	}
	rate := 0.0
	if s.params.Gradients {
		_, rate = s.params.rates(int(p.Round))
	}
	run.Each(s.shared.Rows(), func(i int) {
		row := s.shared.Row(i)
		for c := range row {
			x := sum[i*d+c] / weight
			if s.params.Gradients {
				row[c] += rate * x
			} else {
				row[c] = x
			}
		}
		if s.params.projects() {
			Project(row, s.params.MaxRating) // an average of feasible points is feasible, except for rounding
		}
	})
	return nil
}
