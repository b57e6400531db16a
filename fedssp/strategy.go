package fedssp

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
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
	params    StrategyParams // once items are chosen, those of these
	all       Params         // of the whole catalogue
	chosen    *chosen        // nil where all items are trained on, and until they are chosen
	uncounted bool           // the round that was to say which was lost
	iteration uint64
	model     *Model
	// weight is c_j/|U1|, nil until they are released; weightNoise is the deviation of their noise.
	weight      []float64
	weightNoise float64
	left        left             // with BiasRounds above 1 only
	solving     solving          // what the solver keeps from sum to sum
	encoder     *encoder.Encoder // nil where there is none
	encoded     bool             // the encoder moved in this outer step, and V has not followed
}

// New makes the strategy, the model at its start.
func New(p StrategyParams) (*Strategy, error) {
	want, err := p.Params.Steps()
	errs := []error{err, p.Cohort.Validate()}
	if err == nil {
		errs = append(errs, checkSteps(p.Steps, want))
	}
	if err = errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	s := &Strategy{params: p, all: p.Params}
	switch {
	case p.chooses():
		s.model, s.solving = p.unchosen(), p.solver().begin(&s.all)
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

// prepareSolver sets up what the solver has beside the model.
func (s *Strategy) prepareSolver() error {
	p := &s.params.Params
	var err error
	if p.Encodes() {
		s.encoder, err = p.newEncoder()
	}
	s.solving = p.solver().begin(p)
	return err
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

// ErrNotCounted is returned for the round after the one that counts the items, where that one was lost.
var ErrNotCounted = errors.New("fedssp: the round that counts the items was skipped, so that nobody knows which to train on; nothing but that round is spent. " +
	"Run it again, name the items in a public list (statistics.items-file), or train on all of them (statistics.top-items 0)")

// Next implements server.Strategy. A skipped iteration is an attempt like any other: the
// budget is planned over attempts.
func (s *Strategy) Next() (*protocol.Plan, bool, error) {
	if s.iteration == uint64(len(s.params.Steps)) {
		return nil, true, nil
	}
	if s.uncounted {
		return nil, false, ErrNotCounted
	}
	step := s.params.Steps[s.iteration]
	s.iteration++
	return &protocol.Plan{
		Session: s.params.Session, Iteration: s.iteration, Phase: step.Phase,
		Cohort: s.params.Cohort, Releases: step.Releases, Broadcast: s.broadcast(step.Phase),
	}, false, nil
}

// Skip implements server.Strategy: the attempt is used up. The model stays, unless other sums of the
// outer step that ends here moved it.
func (s *Strategy) Skip(*protocol.Plan, error) {
	s.uncounted = s.model.unchosen && s.chosenBy(s.iteration)
	s.follow(protocol.Workers(1))
	s.settle()
}

// chosenBy reports whether the iteration, or one before, was to choose the items.
func (s *Strategy) chosenBy(iteration uint64) bool {
	if s.all.ByWeights {
		return iteration > 0 && s.params.Steps[iteration-1].Phase != Prepare
	}
	return iteration > 0
}

// Model implements server.Strategy: the model, encoded, as it is after the last sum that was taken in.
func (s *Strategy) Model() []byte {
	m := *s.model
	s.params.solver().settle(s, &m)
	return m.Encode()
}

// Absorb implements server.Strategy.
func (s *Strategy) Absorb(plan *protocol.Plan, released protocol.Sums, run protocol.Runner) error {
	r := absorbed{values: map[string][]float64{}, noise: map[string]float64{}, users: float64(released.Survivors)}
	for i, rel := range plan.Releases {
		r.values[rel.Name], r.noise[rel.Name] = released.Values[i], deviation(rel)
	}
	defer s.settle()
	switch plan.Phase {
	case Prepare:
		return s.prepared(r)
	case BiasStage, Refine:
		s.keepWeights(r)
		s.popularity()
		if err := s.biases(r); err != nil || !s.all.ByWeights {
			return err
		}
		return s.narrow()
	case Popularity:
		s.keepWeights(r)
		s.model.Bias = s.weight // scores, of which only the order counts
	case Statistics:
		if r.values[WeightCounts] != nil {
			s.keepWeights(r)
		}
		return s.solving.solve(s, s.params.undone(r), run)
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

// prepared takes in counts and mean, and chooses items.
func (s *Strategy) prepared(r absorbed) error {
	if x := r.values[Counts]; x != nil {
		n := s.params.total() / r.users
		counts := dense.Scaled(x, n)
		if s.model.unchosen {
			if err := s.adopt(most(counts, s.all.TopItems)); err != nil {
				return err
			}
		}
		for j := range x { // multi-task paper, appendix B: a count that noise makes small must not weigh for it
			counts[j] += s.params.CountMargin * r.noise[Counts] * n
		}
		if s.chosen != nil {
			counts = s.chosen.pick(counts)
		}
		if s.params.withCounts() {
			s.model.Counts = counts
		}
	}
	if x := r.values[Mean]; x != nil {
		p := &s.params.Params
		if p.learned() && p.Pool.held() {
			s.model.Mean = p.heldMean(x[0], x[1], r.noise[Mean])
			return nil
		}
		// A denominator below its noise says nothing: the middle of the scale stays.
		if x[1] > r.noise[Mean] && x[1] > 0 {
			s.model.Mean = p.middle() + (p.Max-p.Min)/2*dense.Clamp(x[0]/x[1], 1)
		}
	}
	return nil
}

// keepWeights takes in weights, and averages those of several rounds.
func (s *Strategy) keepWeights(r absorbed) {
	weight, noise := dense.Scaled(r.values[WeightCounts], 1/r.users), r.noise[WeightCounts]/r.users
	s.weight, s.weightNoise = averaged(s.weight, s.weightNoise, weight, noise)
}

// averaged is the mean of two measurements of the same by the inverse of the variance of the noise in them, and the deviation of what noise
// it has; the second where there is no first.
func averaged(first []float64, noise1 float64, second []float64, noise2 float64) ([]float64, float64) {
	if first == nil {
		return second, noise2
	}
	share := 0.5 // of the second
	if v := dense.Sqr(noise1) + dense.Sqr(noise2); v > 0 {
		share = dense.Sqr(noise1) / v
	}
	out := dense.Scaled(first, 1-share)
	dense.Axpy(out, share, second)
	return out, math.Hypot((1-share)*noise1, share*noise2)
}

// left are the sums for biases of the rounds so far, each with what biases before it took from it, scaled to N clients. nil: none.
type left struct {
	sums  []float64
	noise float64
}

// remaining is how much of what a bias has missed is left in residuals, when users' own fits have taken the rest for theirs, as they do with a
// few dozen ratings. Chosen on validation data; from 0.6 to 0.85 hardly matters.
const remaining = 0.77

// measured is what all rounds so far say of biases, and the deviation of its noise. A sum that is of what biases left has
// them, times the weights of ratings, added again.
func (s *Strategy) measured(sums []float64, noise float64) ([]float64, float64) {
	p, n := &s.params.Params, s.params.total()
	if p.BiasRounds <= 1 {
		return sums, noise
	}
	if b := s.model.Bias; b != nil {
		c := dense.Scaled(s.weight, n)
		if p.learned() && p.Pool.held() {
			c = shrink(c, s.weightNoise*n, n).mean
		}
		noise /= remaining
		for j, x := range b {
			sums[j] = sums[j]/remaining + max(c[j], 0)*x
		}
	}
	s.left.sums, s.left.noise = averaged(s.left.sums, s.left.noise, sums, noise)
	return s.left.sums, s.left.noise
}

// weights is c_j of all N clients, at least the deviation of its noise: less cannot be told from
// nothing. typical is w̃. A sample's weights are all the same; else a user's are about 1/√n and add up to about
// √n, at least 1, so that one over their sum is about one of them.
func (s *Strategy) weights() (c []float64, typical float64) {
	n := s.params.total()
	c = dense.Scaled(s.weight, n)
	floor, sum := max(s.weightNoise*n, 1e-9), 0.0
	for j, x := range c {
		if !(x > floor) {
			c[j] = floor
		}
		sum += x
	}
	if s.params.Budgeting != Weights {
		return c, 1 / math.Sqrt(float64(s.params.PerUser))
	}
	return c, n / max(sum, n)
}

// popularity is what clients weigh for their users: how many rated an item is rated otherwise by some users than by
// others. It follows from what was released, and is of deviation Params.Popularity.
func (s *Strategy) popularity() {
	if p := &s.params.Params; p.Popularity > 0 {
		c, typical := s.weights()
		s.model.Popularity = dense.Scaled(standardLogs(c, typical), p.Popularity)
	}
}

// biases solves for b_j: the system of an outer step in one dimension.
func (s *Strategy) biases(r absorbed) error {
	p, n := &s.params.Params, s.params.total()/r.users
	sums, noise := s.measured(dense.Scaled(r.values[Bias], n), r.noise[Bias]*n)
	if p.learned() {
		b, err := s.pooledBiases(sums, noise)
		if err == nil {
			s.model.Bias = b
		}
		return err
	}
	c, typical := s.weights()
	rho := dense.Sqr(noise) / typical
	b := slices.Clone(sums)
	for j := range b {
		weight := c[j] / (c[j] + rho)
		b[j] = dense.Clamp(weight*b[j]/(weight*c[j]+p.BiasRidge*typical), p.ClipBias)
	}
	s.model.Bias = b
	return nil
}

// broadcast is the model that comes with a plan, with what the solver's clients need besides.
func (s *Strategy) broadcast(phase string) []byte {
	m := *s.model.training(phase)
	if phase == Statistics {
		s.params.solver().planned(s, &m)
	}
	return m.Encode()
}
