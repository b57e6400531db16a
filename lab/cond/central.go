package cond

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// labelsInstance releases labels by randomised response and learns from the answers. rr-on-bins ends there; otherwise the answers
// give a start for the remaining steps. All examples are in one place; of several organisations each would randomise its own.
type labelsInstance struct {
	algorithm.OnePlace // whose methods win over the federation's, which lie deeper
	regressed
	share float64 // share of ε for the labels; 1: no training follows
	rest  dp.Budget
	steps int
}

type regressed struct{ *instance }

// openLabels sets up the releases: labels with ε·share, and steps with the rest.
func openLabels(s *algorithm.Setup, f *family) (algorithm.Instance, error) {
	of, err := newInstance(s)
	if err != nil {
		return nil, err
	}
	x := &labelsInstance{regressed: regressed{of}, share: 1}
	x.params.publish = 1 // moments stay in this place
	if f.steps {
		x.share, x.steps = labelShare.Value(s.Config), algorithm.Rounds.Int(s.Config)
	}
	if !s.Private() {
		return x, nil
	}
	labels := x.bins()
	if err = labels.Validate(); err != nil {
		return nil, config.Wrap(err)
	}
	s.Privacy.Proved = dp.Result{Epsilon: labels.Epsilon, Accountant: dp.Pure}
	s.Privacy.Law = dp.RandomizedResponse
	if !f.steps {
		return x, nil
	}
	// Pure ε1 and (ε2, δ) of the same labels are (ε1 + ε2, δ) together: basic composition, which
	// also holds for steps that depend on the start.
	x.rest = dp.Budget{Epsilon: algorithm.Epsilon.Value(s.Config) - labels.Epsilon, Delta: algorithm.Delta.Value(s.Config), Accountant: dp.PLD}
	_, cost, err := dp.NoiseMultiplier(x.rest, x.steps, 1)
	if err != nil {
		return nil, config.Errorf("epsilon %v: %w", x.rest.Epsilon, err)
	}
	s.Privacy.Proved = dp.Result{Epsilon: labels.Epsilon + cost.Epsilon, Accountant: cost.Accountant}
	s.Privacy.Law = dp.FloatGaussianNoise
	return x, nil
}

// bins returns how labels are randomised. Labels are relative to the middle of their range.
func (x *labelsInstance) bins() BinsOptions {
	half := (x.setup.Data.Max - x.setup.Data.Min) / 2
	return DefaultBinsOptions(-half, half, x.share*algorithm.Epsilon.Value(x.setup.Config))
}

func (x *labelsInstance) Epochs() int { return 1 }

func (x *labelsInstance) Train(ctx context.Context, run protocol.Runner, _ algorithm.Passes, src entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	var profile []float64
	if x.params.profile > 0 {
		profile = x.setup.Data.Profile.X
	}
	examples := newExamples(x.params, profile, x.setup.Rows())
	w, err := x.learn(ctx, examples, src, run)
	if err != nil {
		return nil, err
	}
	p := &parties{instance: x.instance}
	shared := model.Wrap(len(w), 1, w).Encode()
	m, err := p.Final(shared, run)
	if err != nil {
		return nil, err
	}
	return m, passed(algorithm.Epoch{Number: 1, Model: m, Save: func() []byte { return shared }})
}

// learn returns the plain weights.
func (x *labelsInstance) learn(ctx context.Context, examples *Examples, src entropy.Source, run protocol.Runner) ([]float64, error) {
	m, err := momentsOf(x.params.layout, x.params.items, examples.moments(), 0)
	if err != nil {
		return nil, err
	}
	exact := *examples
	ridge, scatter := 0., 0.
	if x.setup.Private() {
		var released *NoisyLabels
		if released, err = RandomisedLabels(examples.label, x.bins(), src); err != nil {
			return nil, err
		}
		exact.label, scatter = released.Values(), released.Bins.Variance()
		if x.steps > 0 {
			exact.label = released.Unbiased()
			ridge = scatter / released.Bins.square() // from labels with this noise and weights that make predictions as large as labels: E‖x‖² is 1
			if math.IsInf(ridge, 1) || math.IsNaN(ridge) {
				return make([]float64, x.params.len()), nil // the released labels are all zero
			}
		}
	}
	t, err := newTransform(x.params.layout, m, inversion{invert: true, floor: exactFloor, ridge: x.items(scatter)})
	if err != nil {
		return nil, err
	}
	start, err := descend(ctx, &exact, t, m, ridge, run)
	if err != nil || x.steps == 0 || !x.setup.Private() {
		return start, err
	}
	return x.step(ctx, examples, m, start, src, run)
}

// items returns the ridge of items' own weights if labels scatter that far beyond their usual scatter.
func (x *labelsInstance) items(scatter float64) func(float64) float64 {
	return func(float64) float64 {
		d := x.params.deviation
		return itemRidge.Or(x.setup.Config, sampleRidge+scatter/(d*d))
	}
}

const (
	// exactFloor is the floor of the directions in which least squares are solved.
	exactFloor = 1e-6
	// descents converge to least squares on conditioned features: with overlapping blocks the slowest direction halves in a few.
	descents = 200
)

// descend fits least squares with a ridge over all examples, by gradients of conditioned features, without noise or clipping.
func descend(ctx context.Context, examples *Examples, t *transform, m moments, ridge float64, run protocol.Runner) ([]float64, error) {
	p := *examples.params
	p.clip = math.Inf(1)
	x := *examples
	x.params, x.rows = &p, nil
	x.use(t.numbers())
	theta := make([]float64, p.len())
	rate := 1 / (2 * (t.curvature + ridge/m.examples)) / m.examples
	for range descents {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		gradient := x.gradient(theta, run)
		t.penalise(p.layout, gradient, theta, m.examples)
		for j, g := range gradient {
			theta[j] -= rate * (g + 2*ridge*theta[j])
		}
	}
	return t.apply(p.layout, theta), nil
}

// step continues from a start by DP-SGD on plain features. It takes full gradients of the start's
// residuals, with each example's gradient clipped, so that another label moves a sum by at most
// 2·clip. It adds normal noise of z·2·clip and rounds to a grid that depends on the noise only.
func (x *labelsInstance) step(ctx context.Context, examples *Examples, m moments, start []float64, src entropy.Source, run protocol.Runner) ([]float64, error) {
	t, err := newTransform(x.params.layout, m, inversion{ridge: x.items(0)})
	if err != nil {
		return nil, err
	}
	left := *examples
	left.rows, left.label = nil, slices.Clone(examples.label)
	users, items := x.scores(left.users(), x.setup.Data.Profile, start)
	for u := range left.users() {
		for k := left.start[u]; k < left.start[u+1]; k++ {
			left.label[k] -= users[u] + items[left.item[k]] - x.params.middle
		}
	}
	left.use(t.numbers())
	z, _, err := dp.NoiseMultiplier(x.rest, x.steps, 1)
	if err != nil {
		return nil, err
	}
	normal, err := newGridded(z * 2 * x.params.clip)
	if err != nil {
		return nil, err
	}
	bits := noise.NewBits(src.Stream("label steps", 0))
	theta, out := make([]float64, x.params.len()), slices.Clone(start)
	rate := step.Value(x.setup.Config) / (2 * t.curvature) / m.examples
	half := x.steps - x.steps/2
	for k := range x.steps {
		g := left.gradient(theta, run)
		if err := errors.Join(normal.addTo(g, bits), ctx.Err()); err != nil {
			return nil, err
		}
		t.penalise(x.params.layout, g, theta, m.examples)
		for j, v := range g {
			theta[j] -= rate * v
		}
		if k >= x.steps-half {
			for j, w := range t.apply(x.params.layout, theta) {
				out[j] += w / float64(half)
			}
		}
	}
	return out, nil
}

func (x *labelsInstance) Baselines() []algorithm.Baseline {
	b := algorithm.Baseline{Name: "non_private", Itself: !x.setup.Private()}
	if b.Itself {
		return []algorithm.Baseline{b}
	}
	b.Note = "least squares of the labels as they are"
	b.Predict = func(run protocol.Runner) (model.Predictor, error) {
		s := *x.setup
		algorithm.Epsilon.Set(&s.Config, math.Inf(1))
		plain := &labelsInstance{regressed: regressed{&instance{setup: &s, params: x.params, bias: x.bias, ridge: x.ridge}}, share: 1}
		m, err := plain.Train(context.Background(), run, algorithm.Passes{}, entropy.Source{}, func(algorithm.Epoch) error { return nil })
		if err != nil {
			return nil, err
		}
		return m.Predictor, nil
	}
	return []algorithm.Baseline{b}
}
