package steps

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

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

func (joint) CheckResample(*kernel.Params) string {
	return fmt.Sprintf("solver %s takes one sum in a round", Joint)
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
