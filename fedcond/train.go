package fedcond

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
)

// Options is how a linear model is trained.
type Options struct {
	// C is the conditioning, p x p; nil: none, which is DP-SGD (Remark 4.11). It must be a
	// function of public features alone.
	C *model.Matrix
	// Switch is the step before which conditioning ends, in [1, Steps) (key design 3); 0: it does not end.
	Switch int
	Steps  int     // over all examples, at least 1
	Rate   float64 // learning rate for the mean gradient, above 0
	Clip   float64 // L2 bound of what one example adds to a gradient, above 0
	Budget dp.Budget
}

// Fitted is a trained model.
type Fitted struct {
	// Weights are of the plain features, conditioning multiplied in: the average over the last
	// half of the steps.
	Weights   []float64 // p
	Statement dp.Statement
}

// Train fits labels by a linear function of features that starts at zero, with the square loss
// and full gradients. An infinite Budget.Epsilon trains without noise, still clipped.
//
// Sensitivity: example i adds s_i·C x_i to a step's sum, |s_i|·‖C x_i‖ <= Clip, and x_i and C
// are public. Another label changes s_i alone, so the sum moves by at most 2·Clip. Each step
// releases the sum with normal noise of z·2·Clip, rounded to a grid that depends on the noise
// only; z is calibrated for all Steps of them (relation [dp.Label]). What is made of them costs nothing.
func Train(r *dataset.Regression, o Options, secret entropy.Source) (*Fitted, error) {
	if err := o.validate(r); err != nil {
		return nil, err
	}
	release, statement, err := newRelease(o, secret)
	if err != nil {
		return nil, err
	}
	l := newLinear(r, o.C)
	average, tail := make([]float64, r.Cols), o.Steps-o.Steps/2
	for step := range o.Steps {
		if o.Switch > 0 && step == o.Switch {
			l.plain(r)
		}
		g := l.gradient(r.Y, o.Clip)
		if err := release.protect(g); err != nil {
			return nil, fmt.Errorf("fedcond: noise of step %d: %w", step, err)
		}
		for j := range g {
			l.theta[j] -= o.Rate / float64(r.Rows) * g[j]
		}
		if step >= o.Steps-tail {
			for j, w := range l.weights() {
				average[j] += w / float64(tail)
			}
		}
	}
	return &Fitted{Weights: average, Statement: statement}, nil
}

// validate reports the first option that cannot be used.
func (o Options) validate(r *dataset.Regression) error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
	switch {
	case r.Rows < 1 || r.Cols < 1 || len(r.X) != r.Rows*r.Cols || len(r.Y) != r.Rows:
		return fmt.Errorf("fedcond: %d features and %d labels for %d rows and %d columns; there must be a feature for each row and column and a label for each row", len(r.X), len(r.Y), r.Rows, r.Cols)
	case o.Steps < 1:
		return fmt.Errorf("fedcond: steps are %d; there must be at least 1", o.Steps)
	case !positive(o.Rate):
		return fmt.Errorf("fedcond: rate is %v; it must be above 0 and finite", o.Rate)
	case !positive(o.Clip):
		return fmt.Errorf("fedcond: clip is %v; it must be above 0 and finite", o.Clip)
	case o.C != nil && (o.C.Rows() != r.Cols || o.C.Cols() != r.Cols):
		return fmt.Errorf("fedcond: conditioning is %d x %d for %d features; it must be square in them", o.C.Rows(), o.C.Cols(), r.Cols)
	case o.Switch != 0 && (o.C == nil || o.Switch < 0 || o.Switch >= o.Steps):
		return fmt.Errorf("fedcond: switch is %d of %d steps; it must be 0, or from 1 to %d and with a conditioning to end", o.Switch, o.Steps, o.Steps-1)
	}
	return o.Budget.Validate()
}

// linear is a model θ of conditioned features.
type linear struct {
	x       blas64.General // X·C, or X
	lengths []float64      // of its rows
	c       *model.Matrix  // nil: none
	theta   []float64
	scales  []float64 // of the rows in a gradient: predictions, then s_i
}

func newLinear(r *dataset.Regression, c *model.Matrix) *linear {
	l := &linear{x: features(r.X, r.Rows, r.Cols), c: c, theta: make([]float64, r.Cols), scales: make([]float64, r.Rows)}
	if c != nil {
		l.x = times(l.x, features(c.Data(), r.Cols, r.Cols))
	}
	l.lengths = norms(l.x)
	return l
}

// plain ends conditioning: θ becomes Cθ, so that no prediction moves.
func (l *linear) plain(r *dataset.Regression) {
	l.theta = l.weights()
	l.x, l.c = features(r.X, r.Rows, r.Cols), nil
	l.lengths = norms(l.x)
}

// weights are those of the plain features, Cθ, in memory of their own.
func (l *linear) weights() []float64 {
	w := make([]float64, len(l.theta))
	if l.c == nil {
		copy(w, l.theta)
		return w
	}
	for j := range w {
		w[j] = model.Dot(l.c.Row(j), l.theta)
	}
	return w
}

// predict leaves a prediction of each row in l.scales.
func (l *linear) predict() {
	blas64.Gemv(blas.NoTrans, 1, l.x, vector(l.theta), 0, vector(l.scales))
}

// gradient is the sum over examples of the square loss's gradient, each clipped: that of a linear
// model is a multiple of the features, so its length is known without it and two products do.
func (l *linear) gradient(y []float64, clip float64) []float64 {
	l.predict()
	for i, predicted := range l.scales {
		l.scales[i] = clipped(2*(predicted-y[i]), l.lengths[i], clip)
	}
	g := make([]float64, l.x.Cols)
	blas64.Gemv(blas.Trans, 1, l.x, vector(l.scales), 0, vector(g))
	return g
}

// clipped is the factor nearest to s with which a row of the length stays within clip. It holds
// for labels that are infinite or not numbers, too: a bound with exceptions is none.
func clipped(s, length, clip float64) float64 {
	switch most := clip / length; {
	case length == 0:
		return 0
	case math.Abs(s) <= most:
		return s
	default:
		return math.Copysign(most, s)
	}
}

func vector(v []float64) blas64.Vector { return blas64.Vector{N: len(v), Inc: 1, Data: v} }

// release adds a run's noise.
type release struct {
	normal *noise.Gaussian // nil: none
	bits   *noise.Bits
	grid   float64
}

// gridBits is how much finer than the noise the grid is: coarse against the spacing of the
// draws, whose low bits may betray what they are added to, and no loss of accuracy.
const gridBits = 20

func newRelease(o Options, secret entropy.Source) (*release, dp.Statement, error) {
	s := dp.Statement{
		Epsilon: math.Inf(1), Delta: o.Budget.Delta, Unit: dp.Example, Relation: dp.Label,
		Accountant: dp.Unaccounted, Sampling: dp.NoSampling, Noise: dp.NoNoise,
	}
	if math.IsInf(o.Budget.Epsilon, 1) {
		return &release{}, s, s.Validate()
	}
	z, cost, err := dp.NoiseMultiplier(o.Budget, o.Steps, 1)
	if err != nil {
		return nil, s, err
	}
	sigma := z * 2 * o.Clip
	normal, err := noise.NewGaussian(sigma)
	if err != nil {
		return nil, s, err
	}
	seed, err := entropy.NewSeed(secret, "label noise", 0)
	if err != nil {
		return nil, s, err
	}
	s.Epsilon, s.Accountant, s.Noise = cost.Epsilon, cost.Accountant, dp.FloatGaussianNoise
	_, exponent := math.Frexp(sigma)
	return &release{normal, noise.NewBits(entropy.Keyed(seed[:])), math.Ldexp(1, exponent-gridBits)}, s, s.Validate()
}

// protect adds noise to a sum.
func (r *release) protect(sum []float64) error {
	if r.normal == nil {
		return nil
	}
	if err := r.normal.Add(sum, r.bits); err != nil {
		return err
	}
	for j := range sum {
		sum[j] = math.Round(sum[j]/r.grid) * r.grid
	}
	return nil
}

// MSE is the mean squared error of weights on examples that have r.Cols features.
func MSE(r *dataset.Regression, weights []float64) float64 {
	var sum float64
	for i, y := range r.Y {
		d := model.Dot(r.X[i*r.Cols:(i+1)*r.Cols], weights) - y
		sum += d * d
	}
	return sum / float64(r.Rows)
}
