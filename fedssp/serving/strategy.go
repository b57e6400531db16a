// Package serving has the server's side of a run. [Strategy] is the server's role, with checkpoints.
// Beside it stand the released weights of items, the equations of an outer step, the priors of biases
// and items, and the encoder that follows a sum.
//
// It imports kernel, and never configuration or the client's side. Stages and solvers reach it
// through two small interfaces, [Stage] and [Solver].
package serving

import (
	"math"

	"github.com/fedsim/fedsim/fedssp/encoder"
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

// Solver is the server's part of a solver.
type Solver interface {
	// Begin makes the state that the server keeps from sum to sum.
	Begin(*kernel.Params) Solving
	// Planned adds to the model of a plan what clients need beside the items. settle brings a model
	// up to the last sum.
	Planned(*Strategy, *kernel.Model)
	Settle(*Strategy, *kernel.Model)
}

// solverOf returns the server's part of the settings' solver.
func solverOf(p *kernel.Params) Solver { return p.Solver.(Solver) }

// Solving is the server's side of a solver during a run.
type Solving interface {
	// Solve takes in a sum of statistics.
	Solve(s *Strategy, r Absorbed, run protocol.Runner) error
	// Save appends the solver's part of a checkpoint. restore reads that part and returns the bytes
	// after it.
	Save(b []byte) []byte
	Restore(p *kernel.Params, b []byte) (Solving, []byte, error)
}

// StrategyParams holds the settings of the server's side.
type StrategyParams struct {
	kernel.Params
	Session protocol.SessionID
	Cohort  protocol.Cohort
	Steps   []kernel.Step // of Params.Steps, with scale, width and noise of every release set
}

// Stage is the server's part of a stage of releases.
type Stage interface {
	// Takes reports whether sums of a phase belong to this stage. absorb takes in such a sum.
	Takes(phase string) bool
	Absorb(*Strategy, Absorbed, protocol.Runner) error
}

// Strategy is the server's side: a server.Durable.
//
// A round without a release leaves the model as it is. Without counts weights are equal,
// without a mean the mean is the middle of the scale, without biases they are zero, without
// statistics V stays. Later steps run all the same.
type Strategy struct {
	stages    []Stage
	Params    StrategyParams // the settings; once items are chosen, over these
	All       kernel.Params  // of the whole catalogue
	Chosen    *kernel.Choice // nil if all items are trained on, and until they are chosen
	uncounted bool           // the round that chooses the items was lost
	Round     uint64
	model     *kernel.Model
	// Weight is c_j/|U1|, nil until the weights are released; weightNoise is the deviation of their
	// noise.
	Weight      []float64
	WeightNoise float64
	Left        left             // with BiasRounds above 1 only
	Solving     Solving          // what the solver keeps from sum to sum
	Encoder     *encoder.Encoder // nil if the solver has none
	Encoded     bool             // the encoder moved in this outer step, and V has not followed
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

// begin sets model and solver to their start.
func (s *Strategy) begin() error {
	p := &s.Params.Params
	m, err := p.Start()
	if err != nil {
		return err
	}
	m.Chosen, m.Weighed = s.Chosen, s.All.UserFeatures
	s.model = m
	return s.prepareSolver()
}

// prepareSolver sets up the solver's state beside the model.
func (s *Strategy) prepareSolver() error {
	p := &s.Params.Params
	var err error
	if p.Encodes() {
		s.Encoder, err = p.NewEncoder()
	}
	s.Solving = solverOf(p).Begin(p)
	return err
}

// Current returns the model itself, not a copy.
func (s *Strategy) Current() *kernel.Model { return s.model }

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
	return &protocol.Plan{
		Session: s.Params.Session, Round: s.Round, Phase: step.Phase,
		Cohort: s.Params.Cohort, Releases: step.Releases, Broadcast: s.broadcast(step.Phase),
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

// Absorbed holds the releases of a round, by name.
type Absorbed struct {
	Values map[string][]float64
	Noise  map[string]float64 // standard deviation in a coordinate
	Users  float64            // |U1|
}

// Deviation is the standard deviation of a release's noise, in the units of the contributions.
func Deviation(r protocol.Release) float64 { return math.Sqrt(r.Noise.Variance) / r.Scale }

// Total is N.
func (p *StrategyParams) Total() float64 { return float64(p.Cohort.Clients) }

// broadcast is the model that comes with a plan, with the solver's additions for clients.
func (s *Strategy) broadcast(phase string) []byte {
	m := *s.model.Training(phase)
	if phase == kernel.Statistics {
		solverOf(&s.Params.Params).Planned(s, &m)
	}
	return m.Encode()
}
