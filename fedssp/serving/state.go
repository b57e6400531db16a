package serving

import (
	"math"

	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/protocol"
)

// Solver is the server's part of a solver.
type Solver interface {
	// Begin makes the state that the server keeps from sum to sum.
	Begin(*kernel.Params) Solving
	// Planned adds to the model of a plan what clients need beside the items. Settle brings a model
	// up to the last sum.
	Planned(*Strategy, *kernel.Model)
	Settle(*Strategy, *kernel.Model)
}

// solverOf returns the server's part of the settings' solver.
func solverOf(p *kernel.Params) Solver { return p.Solver.(Solver) }

// Solving is the server's side of a solver during a run.
type Solving interface {
	// Solve takes in a sum of statistics. It is not called until the weights of items are known,
	// unless the solver sums gradients by user.
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
	// WeightNoises has this deviation for each item, where earlier sessions make it differ; WeightNoise is then the largest. nil: all have the same.
	WeightNoises []float64
	fresh        []float64 // the session's own weights
	freshNoise   float64
	before       *Record          // sums of earlier sessions; nil: none
	own          Record           // sums of this session, except weights
	Left         left             // with BiasRounds above 1 only
	Solving      Solving          // what the solver keeps from sum to sum
	Encoder      *encoder.Encoder // nil if the solver has none
	Encoded      bool             // the encoder moved in this outer step, and V has not followed
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

// left holds the sums for biases of the rounds so far, scaled to N clients. Each comes with the
// biases that were subtracted before it. nil: none.
type left struct {
	Sums  []float64
	Noise float64
}
