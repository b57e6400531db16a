// Package steps has the solvers of the am-ssp and multi-task papers that SSP is compared with. Two take noisy sums of gradients in
// place of statistics, [Gradient] and [EncoderGradient]. [Joint] is plain DP-SGD. [Convex] sums the expansion of a convex loss.
//
// It imports what solvers of the core import, and never a stage or the registration of algorithms. Package lab/ssp registers the
// algorithms.
package steps

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// This file holds the part of users in the solvers that take gradients. A plan brings V, which
// users are fitted to, and the parameters that the gradient is taken at. Within an outer step the
// parameters move from sum to sum and V stays. So a client fits its user anew and gets the same u
// without keeping it.
//
// The bound on a user's addition is enforced last, whatever was broadcast. [Gradient] clips the
// gradient of each rating to Γ and multiplies it by the rating's weight. Rows of different items
// stand at different coordinates and Σ_j w_j² <= 1 (user/weights.go). So the norm of the whole is √(Σ
// w_j² ‖g_j‖²) <= Γ (multi-task paper, Theorem 3.11). [EncoderGradient] and [Joint] sum the
// gradients of all of a user's ratings by the same parameters, and clip the sum to Γ.

func checkExplicit(p *kernel.Params, e *problems.List) {
	e.If(p.Feedback == kernel.Implicit, "solver %s is for explicit feedback", p.Solver)
}

// descending is a solver that takes steps against sums of gradients.
type descending struct {
	solver.Base
	traits   kernel.Traits           // besides the traits of all
	defaults settings.SolverDefaults // except the ridge of users
}

var clipGradientKey config.NumberKey

func init() {
	clipGradientKey = settings.Number("gradient.clip", settings.Clips(), settings.Settings.Descends, "0.5; 1 without noise", "Largest norm of a gradient: of each rating by its item, or of all of a user's by the encoder.",
		settings.Always(func(s settings.Settings) float64 {
			if s.Private() {
				return 0.5
			}
			return 1
		}))
}

// Read makes one schedule of steps for the whole run.
func (descending) Read(p *kernel.Params, s settings.Settings) {
	p.Own, p.Encoder = Settings{Clip: clipGradientKey.Value(s.Config)}, settings.EncoderOf(s.Config)
	p.Encoder.Steps = p.Rounds * p.Resample
}

func (x descending) Traits() kernel.Traits {
	x.traits.Encodes, x.traits.PredictsFromFeatures, x.traits.Exact, x.traits.FirstOrder = true, true, true, true
	return x.traits
}

func (x descending) Defaults(s settings.Settings) settings.SolverDefaults {
	x.defaults.UserRidge = 1
	if s.Private() {
		x.defaults.UserRidge = 3
	}
	return x.defaults
}

func (descending) Bound(p *kernel.Params) float64 { return Of(p).Clip }

func (descending) Check(p *kernel.Params, e *problems.List) {
	checkExplicit(p, e)
	f, x := p.Solver.Encoder(p)
	if n := encoder.Parameters(f, p.Items, p.Rank, x); p.Rounds > 0 && n > protocol.MaxLen {
		e.Add("the encoder has %.3g parameters; a gradient has at most %d: lower the rank or dim, or give fewer features", n, protocol.MaxLen)
	}
}

func (descending) Sends(p *kernel.Params) kernel.Sends { return kernel.Sends{Theta: p.Parameters()} }

func (descending) Planned(s *serving.Strategy, m *kernel.Model) { m.Theta = s.Encoder.Theta() }

// Settle moves V to the parameters, which V does not follow within an outer step.
func (descending) Settle(s *serving.Strategy, m *kernel.Model) {
	if s.Encoded {
		m.Items = make([]float64, len(m.Items))
		s.Encoder.Embed(m.Items, protocol.Workers(1))
	}
}

// contribute returns the user's gradient, which is zero if the user takes no part. It prepares the parameters that the gradient is
// taken at, the user's ratings, and u, which fit sets.
func contribute(c *user.Contribution, fit func(*user.Workspace), gradient func(*user.Contribution) (protocol.Vector, error)) (protocol.Vector, error) {
	if takesPart, err := c.TakesPart(); err != nil || !takesPart {
		return protocol.Vector{Index: []uint32{}}, err
	}
	if c.Model.Theta == nil {
		return protocol.Vector{}, errors.New("the model has no parameters to take the gradient at")
	}
	c.Work = user.NewWorkspace(c.Params)
	c.Work.Gather(c.Params, c.Model, c.Ratings)
	fit(c.Work)
	c.Keep(c.Work)
	user.ClipUser(c.Embedding(), kernel.Farthest) // lest later sums overflow; the bound does not need it
	return gradient(c)
}

// residual is the prediction of the chosen rating i, by an item of embedding v, less the rating,
// times its weight.
func residual(c *user.Contribution, i int, v []float64) float64 {
	k, w := c.Chosen[i], c.Work
	return c.Weights[i] * (w.Offset[k] + w.Own(k, c.Params.Rank) + dense.Dot(c.Embedding(), v) - w.Value[k])
}

// Settings holds the own settings of these solvers, as [kernel.Params.Own].
type Settings struct {
	Loss      Loss // of Convex
	LossWidth float64
	// Clip is Γ, the largest norm of a gradient of half the squared error. [Gradient] clips each rating's
	// gradient by its item; the other solvers clip the gradient of all of a user's ratings by the
	// encoder's parameters.
	Clip float64
	// Radius is the largest norm of an item, Rate multiplies the steps of items; of Gradient only.
	Radius, Rate float64
}

// Of returns the own settings of a solver of this package.
func Of(p *kernel.Params) Settings {
	own, _ := p.Own.(Settings)
	return own
}

// These are the names of the releases.
const (
	hessians  = "hessians"
	gradients = "gradients"
	byEncoder = "encoder-gradient"
)

// Gradient is the solver in which v_j takes projected steps against noisy sums of clipped gradients
// of single ratings (multi-task paper, Algorithm 2): DPSGD and AdaDPSGD.
var Gradient settings.Solver = gradient{descending{traits: kernel.Traits{Table: true}, defaults: settings.SolverDefaults{Rounds: 10, Resample: 5, ItemPrior: 10}}}

type gradient struct{ descending }

func (gradient) String() string { return "gradient" }

func (gradient) Keys() []*config.Key {
	return []*config.Key{clipGradientKey.Key, radiusKey.Key, itemRateKey.Key, settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key, settings.Keys.NormItems.Key, settings.Keys.Resample.Key}
}

var radiusKey, itemRateKey config.NumberKey

func init() {
	radiusKey = settings.Number("gradient.radius", settings.Clips(), settings.With(Gradient), "1; 0.3 where biases come first, 4 without noise", "Largest norm of an item.",
		settings.Always(func(s settings.Settings) float64 {
			switch {
			case !s.Private():
				return 4
			case s.Biases():
				return 0.3
			default:
				return 1
			}
		}))
	itemRateKey = settings.Number("gradient.rate", config.Positive(), settings.With(Gradient), "2", "Factor of the items' steps that theory proposes (multi-task, theorem 3.12).", settings.Value(2))
}

func (x gradient) Read(p *kernel.Params, s settings.Settings) {
	x.descending.Read(p, s)
	own := Of(p)
	own.Radius, own.Rate = radiusKey.Value(s.Config), itemRateKey.Value(s.Config)
	p.Own = own
}

// Encoder describes V as a table, one embedding for each item.
func (gradient) Encoder(p *kernel.Params) (*dataset.ItemFeatures, encoder.Settings) {
	return nil, encoder.Settings{
		IDs: true, StartNorm: p.StartSpread * math.Sqrt(float64(p.Rank)),
		Optimiser: encoder.SGD, Rate: 1, Steps: 1,
	}
}

func (gradient) AppendReleases(p *kernel.Params, to *kernel.Step, share float64) {
	to.Add(solver.Rows(p, gradients, p.Rank, p.ItemsBound()), share)
}

func (gradient) Contribute(c *user.Contribution, _ string) (protocol.Vector, error) {
	return contribute(c, func(w *user.Workspace) { w.Fit(c.Params, c.Model) }, byItems)
}

func (gradient) Begin(*kernel.Params) serving.Solving {
	return solver.Stateless(func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		DescendItems(s, r, run)
		s.Descended(run)
		return nil
	})
}

// byItems is w_j·clip_Γ((prediction - y)·u) for each item.
func byItems(c *user.Contribution) (protocol.Vector, error) {
	p, u := c.Params, slices.Clone(c.Embedding())
	const less = 1 - 1e-15 // lest rounding passes the bound
	length := dense.Norm(u)
	v := protocol.Vector{Index: c.Items(), Block: p.Rank, Factor: make([]float64, len(c.Chosen)), Value: u}
	for i := range c.Chosen {
		bound := c.Weights[i] * Of(p).Clip
		if length > 0 {
			v.Factor[i] = dense.Clamp(residual(c, i, c.Model.Theta[int(v.Index[i])*p.Rank:][:p.Rank]), bound/length*less)
		}
	}
	user.Restrain(v.Factor, dense.Norm(v.Factor)*length, p.ItemsBound())
	return v, nil
}

// DescendItems is line 6 of Algorithm 2 of the multi-task paper for every item: a step against the
// noisy gradient and the ridge, then the projection on the ball of the radius. The length of a step
// follows Theorem 3.12 (a),
//
//	η_j = rate·radius/(G_j·√t), G_j² = (Γc_j + λ_j·radius)² + d·σ²,
//
// where G_j² bounds the mean square of the noisy gradient with the ridge. The released c_j = Σ w_j
// stands for ω_j n_j, σ² is the variance of the actual noise, and λ_j is the ridge. t counts
// through all outer steps.
func DescendItems(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) {
	p, n := &s.Params.Params, s.Params.Total()/r.Users
	y := serving.Equations{Params: p}
	y.Weight, y.Typical = s.Weights()
	own := Of(p)
	g, d, radius := dense.Scaled(r.Values[gradients], n), p.Rank, own.Radius
	noise := float64(d) * dense.Sqr(r.Noise[gradients]*n)
	length := own.Rate * radius / math.Sqrt(float64(s.Sums()+1))
	dense.Blocks(run, p.Items, func(from, to int) {
		for j := from; j < to; j++ {
			v, ridge := s.Encoder.Theta()[j*d:(j+1)*d], y.Ridge(j)
			rate := length / math.Sqrt(dense.Sqr(own.Clip*y.Weight[j]+ridge*radius)+noise)
			for i, x := range v {
				v[i] = x - rate*(g[j*d+i]+ridge*x)
			}
			user.ClipUser(v, radius)
		}
	})
}

// EncoderGradient is the solver that moves the parameters of the encoder against noisy sums of
// users' clipped gradients (am-ssp paper, Algorithm 6): AM-DPSGD.
var EncoderGradient settings.Solver = encoderGradient{descending{
	traits:   kernel.Traits{ByUser: true},
	defaults: settings.SolverDefaults{Rounds: 10, Resample: 5, StartNorm: 0.1, EncoderRate: 0.01},
}}

type encoderGradient struct{ descending }

func (encoderGradient) String() string { return "encoder-gradient" }

func (encoderGradient) Keys() []*config.Key {
	return append(settings.EncoderKeys(), clipGradientKey.Key, settings.Keys.Resample.Key)
}

func (encoderGradient) AppendReleases(p *kernel.Params, to *kernel.Step, share float64) {
	bound, n := p.ItemsBound(), p.Parameters()
	to.Add(protocol.Release{Name: byEncoder, Len: n, L2: bound, LInf: bound, MaxNonZero: n}, share)
}

func (encoderGradient) Contribute(c *user.Contribution, _ string) (protocol.Vector, error) {
	return contribute(c, func(w *user.Workspace) { w.Fit(c.Params, c.Model) }, byParameters)
}

func (encoderGradient) Begin(*kernel.Params) serving.Solving {
	return solver.Stateless(func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		// The step uses the mean over users in units of the bound, so that a rate means the same
		// for any number of users and any Γ.
		mean := dense.Scaled(r.Values[byEncoder], 1/(r.Users*s.Params.ItemsBound()))
		if err := s.Encoder.Descend(mean, s.Sums()); err != nil {
			return fmt.Errorf("fedssp: %w", err)
		}
		s.Descended(run)
		return nil
	})
}

// byParameters is clip_Γ(Σ_j w_j·(prediction - y)·J_j u), where J_j is the Jacobian of item j's
// embedding. It is line 8 of Algorithm 6, with all of a user's ratings clipped together.
func byParameters(c *user.Contribution) (protocol.Vector, error) {
	shape, err := shape(c.User)
	if err != nil {
		return protocol.Vector{}, err
	}
	p := c.Params
	grad := make([]float64, p.Parameters())
	items := make([]int32, len(c.Chosen))
	for i, j := range c.Items() {
		items[i] = int32(j)
	}
	shape.Gradient(c.Model.Theta, items, func(i int, v, g []float64) {
		r := residual(c, i, v)
		for a, x := range c.Embedding() {
			g[a] = r * x
		}
	}, grad)
	user.Restrain(grad, dense.Norm(grad), p.ItemsBound())
	return protocol.Vector{Value: grad}, nil
}

// shape returns the encoder that a client computes with; clients of a simulation share one.
func shape(t *user.User) (*encoder.Encoder, error) {
	if t.Params.Shape != nil {
		return t.Params.Shape, nil
	}
	return t.Params.NewEncoder()
}

// Joint is [EncoderGradient] except that users' embeddings are not solved for: they take a step of
// their own in every round. This is plain DP-SGD on all parameters (am-ssp paper, E.1.5).
var Joint settings.Solver = joint{encoderGradient{descending{
	traits:   kernel.Traits{ByUser: true, OneSum: true},
	defaults: settings.SolverDefaults{Rounds: 50, StartNorm: 0.1, EncoderRate: 0.01},
}}}

type joint struct{ encoderGradient }

func (joint) String() string { return "joint" }

func (joint) Keys() []*config.Key {
	return append(settings.EncoderKeys(), clipGradientKey.Key)
}

func (x joint) Check(p *kernel.Params, e *problems.List) {
	x.encoderGradient.Check(p, e)
	e.If(p.Resample > 1, "solver %s takes one sum in a round", Joint)
}

// Keeps counts u with its weights, and the bias.
func (joint) Keeps(p *kernel.Params) int { return p.Width() + 1 }

func (joint) Contribute(c *user.Contribution, _ string) (protocol.Vector, error) {
	p := c.Params
	return contribute(c, func(w *user.Workspace) { take(w, p, c.User.U, c.Bias) }, func(c *user.Contribution) (protocol.Vector, error) {
		v, err := byParameters(c)
		if err == nil {
			step(c.Work, p)
			c.Keep(c.Work)
		}
		return v, err
	})
}

// take sets the solution to the numbers that a user kept, or to zero if it kept none.
func take(w *user.Workspace, p *kernel.Params, u []float64, bias float64) {
	clear(w.Beta)
	if u == nil {
		return
	}
	copy(w.Beta, u[:p.Rank])
	copy(w.Beta[p.WeightsAt():], u[p.Rank:])
	if p.Bias {
		w.Beta[p.Rank] = bias
	}
}

// step takes a step of the user's own against the gradient of the objective of fit, divided by the
// number of ratings. The ridge counts as so many ratings.
func step(w *user.Workspace, p *kernel.Params) {
	w.Spread()
	slope := make([]float64, w.Width)
	for i, x := range w.Beta {
		slope[i] = w.Ridge(p, i) * x
	}
	for k, y := range w.Value {
		row := w.Rows[k*w.Width : (k+1)*w.Width]
		dense.Axpy(slope, w.Offset[k]+dense.Dot(w.Beta, row)-y, row)
	}
	dense.Axpy(w.Beta, -1/(float64(len(w.Value))+p.UserRidge), slope)
	if dense.NotFinite(w.Beta) >= 0 {
		clear(w.Beta)
	}
}
