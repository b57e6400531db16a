package fedssp

import (
	"fmt"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// EncoderGradient is the solver that moves the parameters of the encoder against noisy sums of
// users' clipped gradients (am-ssp paper, Algorithm 6): AM-DPSGD.
var EncoderGradient Solver = encoderGradient{}

type encoderGradient struct{ descending }

func (encoderGradient) String() string { return "encoder-gradient" }

func (encoderGradient) keys() []*config.Key {
	return append(encoderKeys(), clipGradientKey.Key, keys.resample.Key)
}

func (encoderGradient) byUser() bool { return true }

func (x encoderGradient) check(p *Params, e *problems) {
	x.descending.check(p, e)
	checkStart(p, e)
}

func (encoderGradient) againstSums(p *Params) string { return closed{}.againstSums(p) }

func (encoderGradient) length(p *Params, name string) int {
	if name != ByEncoder {
		return 0
	}
	return p.parameters()
}

func (encoderGradient) ask(p *Params, to *Step, share float64) {
	bound, n := p.itemsBound(), p.parameters()
	to.add(protocol.Release{Name: ByEncoder, Len: n, L2: bound, LInf: bound, MaxNonZero: n}, share)
}

func (encoderGradient) contribute(c *contribution, _ string) (protocol.Vector, error) {
	ok, err := c.gradientAt(func(w *workspace) { w.fit(c.params, c.model) })
	if !ok {
		return protocol.Vector{Index: []uint32{}}, err
	}
	return c.byParameters()
}

func (encoderGradient) begin(*Params) solving {
	return stateless{func(s *Strategy, r absorbed, run protocol.Runner) error {
		// The step uses the mean over users in units of the bound, so that a rate means the same
		// for any number of users and any Γ.
		mean := dense.Scaled(r.values[ByEncoder], 1/(r.users*s.params.itemsBound()))
		if err := s.encoder.Descend(mean, s.sums()); err != nil {
			return fmt.Errorf("fedssp: %w", err)
		}
		s.descended(run)
		return nil
	}}
}

// byParameters is clip_Γ(Σ_j w_j·(prediction - y)·J_j u), where J_j is the Jacobian of item j's
// embedding. It is line 8 of Algorithm 6, with all of a user's ratings clipped together.
func (c *contribution) byParameters() (protocol.Vector, error) {
	shape, err := c.shape()
	if err != nil {
		return protocol.Vector{}, err
	}
	p := c.params
	theta, grad := make([]float64, p.parameters()), make([]float64, p.parameters())
	items := make([]int32, len(c.chosen))
	for i, j := range c.items() {
		items[i] = int32(j)
	}
	shape.Gradient(c.model.parameters(0, theta), items, func(i int, v, g []float64) {
		r := c.residual(i, v)
		for a, x := range c.embedding() {
			g[a] = r * x
		}
	}, grad)
	restrain(grad, dense.Norm(grad), p.itemsBound())
	return protocol.Vector{Value: grad}, nil
}

// shape returns the encoder that a client computes with; clients of a simulation share one.
func (t *User) shape() (*encoder.Encoder, error) {
	if t.params.shape != nil {
		return t.params.shape, nil
	}
	return t.params.newEncoder()
}
