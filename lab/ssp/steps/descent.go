// Package steps has the solvers of the am-ssp and multi-task papers that SSP is compared with. Two take noisy sums of gradients in
// place of statistics, [Gradient] and [EncoderGradient]. [Joint] is plain DP-SGD. [Convex] sums the expansion of a convex loss.
//
// It imports what solvers of the core import, and never a stage or the registration of algorithms. Package lab/ssp registers the
// algorithms.
package steps

import (
	"errors"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
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
type descending struct{ solver.Base }

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

func (descending) Traits() kernel.Traits {
	return kernel.Traits{Encodes: true, PredictsFromFeatures: true, Exact: true, FirstOrder: true}
}

// Defaults takes 10 rounds of 5 steps each.
func (descending) Defaults(s settings.Settings) settings.SolverDefaults {
	own := settings.SolverDefaults{Rounds: 10, Resample: 5, UserRidge: 1}
	if s.Private() {
		own.UserRidge = 3
	}
	return own
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

// gradientAt prepares the user's gradient: the parameters it is taken at, the user's ratings, and
// u, which the given function fits. It returns false if the gradient is zero.
func gradientAt(c *user.Contribution, fit func(w *user.Workspace)) (bool, error) {
	if takesPart, err := c.TakesPart(); err != nil || !takesPart {
		return false, err
	}
	if c.Model.Theta == nil {
		return false, errors.New("the model has no parameters to take the gradient at")
	}
	c.Work = user.NewWorkspace(c.Params)
	c.Work.Gather(c.Params, c.Model, c.Ratings)
	fit(c.Work)
	c.Keep(c.Work)
	user.ClipUser(c.Embedding(), kernel.Farthest) // lest later sums overflow; the bound does not need it
	return true, nil
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
