package fedssp

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/protocol"
)

// StrategyParams are the settings of the server's side.
type StrategyParams struct {
	Params
	Session protocol.SessionID
	Cohort  protocol.Cohort
	Steps   []Step // of Params.Steps, with scale, width and noise of every release set
}

// Strategy is the server's side: a server.Durable.
//
// An iteration that released nothing leaves the model as it is: without counts weights are
// equal, without a mean the middle of the scale is it, without biases they are zero, without
// statistics V stays. Later steps run all the same.
type Strategy struct {
	params    StrategyParams
	iteration uint64
	model     *Model
	// weight is c_j/|U1|, nil until they are released; weightNoise is the deviation of their noise.
	weight      []float64
	weightNoise float64
	collective  *collective // CMF only
}

// New makes the strategy, the model at its start.
func New(p StrategyParams) (*Strategy, error) {
	want, err := p.Params.Steps()
	errs := []error{err, p.Cohort.Validate()}
	if err == nil {
		errs = append(errs, checkSteps(p.Steps, want))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	s := &Strategy{params: p}
	s.model = s.params.Start()
	if p.Solver == CMF {
		s.collective = newCollective(&s.params.Params)
	}
	return s, nil
}

// checkSteps checks that the steps are those of the settings, completed.
func checkSteps(got, want []Step) error {
	if len(got) != len(want) {
		return fmt.Errorf("there are %d steps; the settings make %d", len(got), len(want))
	}
	var errs []error
	for i, s := range got {
		if s.Phase != want[i].Phase || len(s.Releases) != len(want[i].Releases) {
			return fmt.Errorf("step %d is %q with %d releases; it must be %q with %d", i+1, s.Phase, len(s.Releases), want[i].Phase, len(want[i].Releases))
		}
		for k, r := range s.Releases {
			bare := r
			bare.Scale, bare.Width, bare.Noise = 0, 0, protocol.Noise{}
			if bare != want[i].Releases[k] {
				errs = append(errs, fmt.Errorf("step %d: release %q has other bounds than the settings make; set scale, width and noise only", i+1, r.Name))
			}
			errs = append(errs, r.Validate())
		}
	}
	return errors.Join(errs...)
}

// Current is the model as it stands, not a copy.
func (s *Strategy) Current() *Model { return s.model }

// Next implements server.Strategy. A skipped iteration is an attempt like any other: the
// budget is planned over attempts.
func (s *Strategy) Next() (*protocol.Plan, bool, error) {
	if s.iteration == uint64(len(s.params.Steps)) {
		return nil, true, nil
	}
	step := s.params.Steps[s.iteration]
	s.iteration++
	return &protocol.Plan{
		Session: s.params.Session, Iteration: s.iteration, Phase: step.Phase,
		Cohort: s.params.Cohort, Releases: step.Releases, Broadcast: s.model.Encode(),
	}, false, nil
}

// Skip implements server.Strategy: the model stays, the attempt is used up.
func (s *Strategy) Skip(*protocol.Plan, error) {}

// Model implements server.Strategy: the model, encoded.
func (s *Strategy) Model() []byte { return s.model.Encode() }

// Absorb implements server.Strategy.
func (s *Strategy) Absorb(plan *protocol.Plan, released protocol.Sums, run protocol.Runner) error {
	r := absorbed{values: map[string][]float64{}, noise: map[string]float64{}, users: float64(released.Survivors)}
	for i, rel := range plan.Releases {
		r.values[rel.Name], r.noise[rel.Name] = released.Values[i], deviation(rel)
	}
	switch plan.Phase {
	case Prepare:
		s.prepared(r)
	case BiasStage:
		s.keepWeights(r)
		n := s.params.total() / r.users
		weight := s.scaledWeights()
		s.model.Bias = s.params.biases(scaled(r.values[Bias], n), weight, r.noise[Bias]*n)
	case Statistics:
		if r.values[WeightCounts] != nil {
			s.keepWeights(r)
		}
		s.step(r, run)
	}
	return nil
}

// absorbed is what an iteration released, by name.
type absorbed struct {
	values map[string][]float64
	noise  map[string]float64 // standard deviation in a coordinate
	users  float64            // |U1|
}

// deviation is the standard deviation of a release's noise, in the units of the contributions.
func deviation(r protocol.Release) float64 { return math.Sqrt(r.Noise.Variance) / r.Scale }

// total is N as a number.
func (p *StrategyParams) total() float64 { return float64(p.Cohort.Clients) }

func scaled(x []float64, by float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * by
	}
	return out
}

// prepared takes in counts and mean.
func (s *Strategy) prepared(r absorbed) {
	if x := r.values[Counts]; x != nil {
		s.model.Counts = scaled(x, s.params.total()/r.users)
	}
	if x := r.values[Mean]; x != nil {
		p := &s.params.Params
		// A denominator below its noise says nothing: the middle of the scale stays.
		if x[1] > r.noise[Mean] && x[1] > 0 {
			s.model.Mean = p.middle() + (p.Max-p.Min)/2*clampTo(x[0]/x[1], 1)
		}
	}
}

func (s *Strategy) keepWeights(r absorbed) {
	s.weight = scaled(r.values[WeightCounts], 1/r.users)
	s.weightNoise = r.noise[WeightCounts] / r.users
}

// scaledWeights is c_j of all N clients, at least the deviation of its noise: less cannot be told
// from nothing.
func (s *Strategy) scaledWeights() []float64 {
	n := s.params.total()
	return floored(scaled(s.weight, n), max(s.weightNoise*n*s.params.Floor, 1e-6))
}

// step is the server's half of an alternating step. Without weight counts V stays: what b_j
// is to be divided by is not known.
func (s *Strategy) step(r absorbed, run protocol.Runner) {
	if s.weight == nil {
		return
	}
	p, n := &s.params.Params, s.params.total()/r.users
	x := sums{weight: s.scaledWeights(), moments: scaled(r.values[Moments], n), noise: r.noise[Moments] * n, users: s.params.total()}
	if g := r.values[Gramian]; g != nil {
		x.gramian = make([]float64, p.Rank*p.Rank)
		unpack(x.gramian, g, p.Rank, 1/r.users)
		newProjector(p.Rank).project(x.gramian)
	}
	if g := r.values[Gramians]; g != nil {
		x.items = scaled(g, n)
	}
	if s.collective == nil {
		x.als(p, s.model.Items, run, nil)
	} else {
		for range p.CMF.Sweeps {
			s.collective.fitFeatures(s.model.Items, run)
			every := s.collective.everyFeature()
			x.als(p, s.model.Items, run, func(w *solver, j int) { s.collective.addTo(w.a, w.b, every, w.scratch, j) })
		}
	}
	s.model.complete(p)
}
