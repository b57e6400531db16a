// Package serving has the server's side of a run. [Strategy] is the server's role, with checkpoints.
// Beside it stand the released weights of items, the equations of an outer step, the priors of biases
// and items, and the encoder that follows a sum.
//
// It imports kernel, and never configuration or the client's side. Stages and solvers reach it
// through two small interfaces, [Stage] and [Solver].
package serving

import (
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/protocol"
)

// settle rounds the model as clients receive it, and computes anew everything that follows from it.
func (s *Strategy) settle() {
	if m := s.model; m.Scale.Single {
		m.Round()
		m.Complete(&s.Params.Params)
	}
}

// New returns a strategy with the model at its start. Its settings and steps must be valid.
// stages lists all that take in sums.
func New(p StrategyParams, stages []Stage) (*Strategy, error) {
	s := &Strategy{Params: p, stages: stages, All: p.Params}
	var err error
	switch {
	case p.Chooses():
		s.model, s.Solving = p.Unchosen(), solverOf(&s.All).Begin(&s.All)
	case p.TopItems > 0:
		err = s.Adopt(p.Listed)
	default:
		err = s.begin()
	}
	return s, err
}

// Next plans a round. A skipped round counts like any other: the budget is planned over
// attempts.
func (s *Strategy) Next() (*protocol.Plan, bool, error) {
	if s.Round == uint64(len(s.Params.Steps)) {
		return nil, true, nil
	}
	if s.uncounted {
		return nil, false, kernel.ErrNotCounted
	}
	step := s.Params.Steps[s.Round]
	s.Round++
	m := *s.model.Training(step.Phase)
	if step.Phase == kernel.Statistics {
		solverOf(&s.Params.Params).Planned(s, &m)
	}
	return &protocol.Plan{
		Session: s.Params.Session, Round: s.Round, Phase: step.Phase,
		Cohort: s.Params.Cohort, Releases: step.Releases, Broadcast: m.Encode(),
	}, false, nil
}

// Skip uses up an attempt. The model stays, unless other sums of the outer step that ends here
// moved it.
func (s *Strategy) Skip(*protocol.Plan, error) {
	s.uncounted = s.model.Unchosen && s.chosenBy(s.Round)
	s.follow(protocol.Workers(1))
	s.settle()
}

// chosenBy reports whether the round, or an earlier one, chooses the items.
func (s *Strategy) chosenBy(round uint64) bool {
	if s.All.ByWeights {
		return round > 0 && s.Params.Steps[round-1].Phase != kernel.Prepare
	}
	return round > 0
}

// Model returns the encoded model after the last sum that was taken in.
func (s *Strategy) Model() []byte {
	m := *s.model
	solverOf(&s.Params.Params).Settle(s, &m)
	if s.Params.Orders() && s.Weight != nil && s.Round == uint64(len(s.Params.Steps)) {
		m.Counts = s.counts()
	}
	return m.Encode()
}

// Absorb takes in the sums of a round, stage by stage.
func (s *Strategy) Absorb(plan *protocol.Plan, released protocol.Sums, run protocol.Runner) error {
	r := Absorbed{Values: map[string][]float64{}, Noise: map[string]float64{}, Users: float64(released.Survivors)}
	for i, rel := range plan.Releases {
		r.Values[rel.Name], r.Noise[rel.Name] = released.Values[i], Deviation(rel)
	}
	defer s.settle()
	for _, x := range s.stages {
		if x.Takes(plan.Phase) {
			if err := x.Absorb(s, r, run); err != nil {
				return err
			}
		}
	}
	return nil
}
