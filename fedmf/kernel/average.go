package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/internal/problems"
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
	// Schedule has the release of PartyParams.Release in every round, with width and the noise of its local steps set.
	Schedule protocol.Schedule
}

// Average is the server's side of VFL- and HFL-SGDMF, a server.Durable. It averages the versions of
// the shared embeddings, by weight, over the parties that took part (FMF paper, figure 3, step s2).
type Average struct {
	*modelserver.Server
	shared *modelserver.Matrix
	params AverageParams
}

// NewAverage makes the strategy, with the shared embeddings at their start.
func NewAverage(p AverageParams) (*Average, error) {
	errs := problems.List{p.Validate(), p.Cohort.Validate()}
	if err := checkSchedule(p.Schedule); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	r := p.Schedule.First()
	errs.If(p.Schedule.Rounds() != p.Rounds, "the schedule has %d rounds; there must be %d", p.Schedule.Rounds(), p.Rounds)
	errs.If(p.Start == nil || p.Start.Rows()*p.Start.Cols()+1 != r.Len,
		"the start does not have the %d coordinates of the release", r.Len-1)
	k := r.Noise.Kind
	errs.If(k != protocol.PartyNoise && k != protocol.NoNoise, "noise is %s; parties noise their own steps or not at all", k)
	errs.If(p.Gradients && p.LocalSteps != 1,
		"local-steps is %d; it must be 1, since the server averages the gradient of a single step", p.LocalSteps)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	shared := &modelserver.Matrix{Matrix: p.Start.Clone()}
	return &Average{newServer("average", p.Schedule, p.Cohort, p.Session, shared), shared, p}, nil
}

// newServer makes the part of a strategy that does not depend on what a sum does to the shared embeddings.
func newServer(form string, s protocol.Schedule, c protocol.Cohort, id protocol.SessionID, shared *modelserver.Matrix) *modelserver.Server {
	return &modelserver.Server{Schedule: s, Cohort: c, Session: id, Name: "fedmf", Domain: "fedsim/fedmf/" + form + "/v2\n", Shared: shared}
}

// checkSchedule checks that all rounds have the same single release.
func checkSchedule(s protocol.Schedule) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if !s.Uniform() {
		return errors.New("the rounds of the schedule release different vectors; all must release the same one")
	}
	return s.First().Validate()
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

// Snapshot returns u_i, fitted in stage 1, as little-endian float64, row by row.
func (t *User) Snapshot() ([]byte, error) { return numbers(t.u) }

func (t *User) Resume(snapshot []byte, _ entropy.Source) error {
	u := make([]float64, t.params.Rank)
	if err := readNumbers(u, snapshot); err != nil {
		return err
	}
	t.u = u
	return nil
}

// Snapshot returns U_k.
func (t *Horizontal) Snapshot() ([]byte, error) {
	if t.u == nil {
		return nil, nil
	}
	return numbers(t.u.Data())
}

// Resume restores U_k. The ratings are trimmed as they were before.
func (t *Horizontal) Resume(snapshot []byte, src entropy.Source) error {
	if t.steps == nil {
		if err := t.prepare(t.params.StartItems(), src, protocol.Workers(1)); err != nil {
			return err
		}
	}
	return readNumbers(t.u.Data(), snapshot)
}

// numbers encodes x; nil stays nil.
func numbers(x []float64) ([]byte, error) {
	if x == nil {
		return nil, nil
	}
	return binary.Append(make([]byte, 0, 8*len(x)), binary.LittleEndian, x)
}

func readNumbers(dst []float64, b []byte) error {
	if len(b) != 8*len(dst) {
		return fmt.Errorf("fedmf: a snapshot of %d bytes of embeddings; there must be %d", len(b), 8*len(dst))
	}
	_, err := binary.Decode(b, binary.LittleEndian, dst)
	return err
}
