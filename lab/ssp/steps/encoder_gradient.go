package steps

import (
	"fmt"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
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
	theta, grad := make([]float64, p.Parameters()), make([]float64, p.Parameters())
	items := make([]int32, len(c.Chosen))
	for i, j := range c.Items() {
		items[i] = int32(j)
	}
	shape.Gradient(c.Model.Parameters(0, theta), items, func(i int, v, g []float64) {
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
