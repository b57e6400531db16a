package fedssp

import (
	"errors"
	"math"

	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/protocol"
)

// StrategyParams holds the settings of the server's side.
type StrategyParams struct {
	Params
	Session protocol.SessionID
	Cohort  protocol.Cohort
	Steps   []Step // of Params.Steps, with scale, width and noise of every release set
}

// serverStage is the server's part of a stage of releases.
type serverStage interface {
	// takes reports whether sums of a phase belong to this stage. absorb takes in such a sum.
	takes(phase string) bool
	absorb(*Strategy, absorbed, protocol.Runner) error
}

// Strategy is the server's side: a server.Durable.
//
// A round without a release leaves the model as it is. Without counts weights are equal,
// without a mean the mean is the middle of the scale, without biases they are zero, without
// statistics V stays. Later steps run all the same.
type Strategy struct {
	stages    []serverStage
	params    StrategyParams // the settings; once items are chosen, over these
	all       Params         // of the whole catalogue
	chosen    *chosen        // nil if all items are trained on, and until they are chosen
	uncounted bool           // the round that chooses the items was lost
	round     uint64
	model     *Model
	// weight is c_j/|U1|, nil until the weights are released; weightNoise is the deviation of their
	// noise.
	weight      []float64
	weightNoise float64
	left        left             // with BiasRounds above 1 only
	solving     solving          // what the solver keeps from sum to sum
	encoder     *encoder.Encoder // nil if the solver has none
	encoded     bool             // the encoder moved in this outer step, and V has not followed
}

// newServer returns a strategy with the model at its start. Its settings and steps must be valid.
// stages lists all that take in sums.
func newServer(p StrategyParams, stages []serverStage) (*Strategy, error) {
	s := &Strategy{params: p, stages: stages, all: p.Params}
	var err error
	switch {
	case p.chooses():
		s.model, s.solving = p.unchosen(), serverSideOf(&s.all).begin(&s.all)
	case p.TopItems > 0:
		err = s.adopt(p.Listed)
	default:
		err = s.begin()
	}
	return s, err
}

// begin sets model and solver to their start.
func (s *Strategy) begin() error {
	p := &s.params.Params
	m, err := p.Start()
	if err != nil {
		return err
	}
	m.chosen, m.weighed = s.chosen, s.all.UserFeatures
	s.model = m
	return s.prepareSolver()
}

// prepareSolver sets up the solver's state beside the model.
func (s *Strategy) prepareSolver() error {
	p := &s.params.Params
	var err error
	if p.Encodes() {
		s.encoder, err = p.newEncoder()
	}
	s.solving = serverSideOf(p).begin(p)
	return err
}

// Current returns the model itself, not a copy.
func (s *Strategy) Current() *Model { return s.model }

// ErrNotCounted is returned for the round after a lost round of item counts.
var ErrNotCounted = errors.New("fedssp: the round that counts the items was skipped, so the items to train on are unknown; only that round is spent. " +
	"Run it again, name the items in a public list (statistics.items-file), or train on all of them (statistics.top-items 0)")

// Next plans a round. A skipped round counts like any other: the budget is planned over
// attempts.
func (s *Strategy) Next() (*protocol.Plan, bool, error) {
	if s.round == uint64(len(s.params.Steps)) {
		return nil, true, nil
	}
	if s.uncounted {
		return nil, false, ErrNotCounted
	}
	step := s.params.Steps[s.round]
	s.round++
	return &protocol.Plan{
		Session: s.params.Session, Round: s.round, Phase: step.Phase,
		Cohort: s.params.Cohort, Releases: step.Releases, Broadcast: s.broadcast(step.Phase),
	}, false, nil
}

// Skip uses up an attempt. The model stays, unless other sums of the outer step that ends here
// moved it.
func (s *Strategy) Skip(*protocol.Plan, error) {
	s.uncounted = s.model.unchosen && s.chosenBy(s.round)
	s.follow(protocol.Workers(1))
	s.settle()
}

// chosenBy reports whether the round, or an earlier one, chooses the items.
func (s *Strategy) chosenBy(round uint64) bool {
	if s.all.ByWeights {
		return round > 0 && s.params.Steps[round-1].Phase != Prepare
	}
	return round > 0
}

// Model returns the encoded model after the last sum that was taken in.
func (s *Strategy) Model() []byte {
	m := *s.model
	serverSideOf(&s.params.Params).settle(s, &m)
	return m.Encode()
}

func (s *Strategy) Absorb(plan *protocol.Plan, released protocol.Sums, run protocol.Runner) error {
	r := absorbed{values: map[string][]float64{}, noise: map[string]float64{}, users: float64(released.Survivors)}
	for i, rel := range plan.Releases {
		r.values[rel.Name], r.noise[rel.Name] = released.Values[i], deviation(rel)
	}
	defer s.settle()
	for _, x := range s.stages {
		if x.takes(plan.Phase) {
			if err := x.absorb(s, r, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// absorbed holds the releases of a round, by name.
type absorbed struct {
	values map[string][]float64
	noise  map[string]float64 // standard deviation in a coordinate
	users  float64            // |U1|
}

// deviation is the standard deviation of a release's noise, in the units of the contributions.
func deviation(r protocol.Release) float64 { return math.Sqrt(r.Noise.Variance) / r.Scale }

// total is N.
func (p *StrategyParams) total() float64 { return float64(p.Cohort.Clients) }

// broadcast is the model that comes with a plan, with the solver's additions for clients.
func (s *Strategy) broadcast(phase string) []byte {
	m := *s.model.training(phase)
	if phase == Statistics {
		serverSideOf(&s.params.Params).planned(s, &m)
	}
	return m.Encode()
}
