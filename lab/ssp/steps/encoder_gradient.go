package steps

import (
	"fmt"
	"math"

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

// EncoderGradient is the solver that moves the parameters of the encoder against noisy sums of
// users' clipped gradients (am-ssp paper, Algorithm 6): AM-DPSGD.
var EncoderGradient settings.Solver = encoderGradient{}

type encoderGradient struct{ descending }

func (encoderGradient) String() string { return "encoder-gradient" }

func (x encoderGradient) Traits() kernel.Traits {
	all := x.descending.Traits()
	all.ByUser = true
	return all
}

func (x encoderGradient) Defaults(s settings.Settings) settings.SolverDefaults {
	own := x.descending.Defaults(s)
	own.StartNorm, own.EncoderRate = 0.1, 0.01
	return own
}

func (encoderGradient) Keys() []*config.Key {
	return append(settings.EncoderKeys(), clipGradientKey.Key, settings.Keys.Resample.Key)
}

func (encoderGradient) AppendReleases(p *kernel.Params, to *kernel.Step, share float64) {
	bound, n := p.ItemsBound(), p.Parameters()
	to.Add(protocol.Release{Name: byEncoder, Len: n, L2: bound, LInf: bound, MaxNonZero: n}, share)
}

func (encoderGradient) Contribute(c *user.Contribution, _ string) (protocol.Vector, error) {
	ok, err := gradientAt(c, func(w *user.Workspace) { w.Fit(c.Params, c.Model) })
	if !ok {
		return protocol.Vector{Index: []uint32{}}, err
	}
	return byParameters(c)
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
var Joint settings.Solver = joint{}

type joint struct{ encoderGradient }

func (joint) String() string { return "joint" }

func (x joint) Traits() kernel.Traits {
	all := x.encoderGradient.Traits()
	all.OneSum = true
	return all
}

func (joint) Keys() []*config.Key {
	return append(settings.EncoderKeys(), clipGradientKey.Key)
}

// Defaults takes 50 rounds, of one step each.
func (x joint) Defaults(s settings.Settings) settings.SolverDefaults {
	own := x.encoderGradient.Defaults(s)
	own.Rounds, own.Resample = 50, 0
	return own
}

func (x joint) Check(p *kernel.Params, e *problems.List) {
	x.encoderGradient.Check(p, e)
	e.If(p.Resample > 1, "solver %s takes one sum in a round", Joint)
}

// Keeps counts u with its weights, and the bias.
func (joint) Keeps(p *kernel.Params) int { return p.Width() + 1 }

func (joint) Contribute(c *user.Contribution, _ string) (protocol.Vector, error) {
	p := c.Params
	ok, err := gradientAt(c, func(w *user.Workspace) { take(w, p, c.User.Embedding(), c.Bias()) })
	if !ok {
		return protocol.Vector{Index: []uint32{}}, err
	}
	v, err := byParameters(c)
	if err == nil {
		step(c.Work, p)
		c.Keep(c.Work)
	}
	return v, err
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
	for _, x := range w.Beta {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			clear(w.Beta)
			return
		}
	}
}
