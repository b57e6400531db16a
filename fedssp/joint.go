package fedssp

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Joint is [EncoderGradient] except that users' embeddings are not solved for: they take a step of
// their own in every round. This is plain DP-SGD on all parameters (am-ssp paper, E.1.5).
var Joint Solver = joint{}

type joint struct{ encoderGradient }

func (joint) String() string { return namedJoint }

func (joint) keys() []*config.Key {
	return append(encoderKeys(), clipGradientKey.Key, userRateKey.Key)
}

var userRateKey config.NumberKey

func declareJoint() {
	userRateKey = number("gradient.user-rate", config.Positive(), func(s settings) bool { return s.solver() == namedJoint }, "1",
		"Learning rate of a user's own embedding, on the mean of its ratings.", value(1))
}

func (x joint) read(p *Params, s settings) {
	x.descending.read(p, s)
	p.Descent.UserRate = userRateKey.Value(s.Config)
}

func (x joint) check(p *Params, e *problems) {
	x.encoderGradient.check(p, e)
	if p.Rounds > 0 {
		e.within(userRateKey, p.Descent.UserRate)
	}
}

func (joint) againstSums(*Params) string {
	return fmt.Sprintf("solver %s takes one sum in a round", Joint)
}

// keeps counts u with its weights, and the bias.
func (joint) keeps(p *Params) int { return p.width() + 1 }

func (joint) contribute(c *contribution, _ string) (protocol.Vector, error) {
	p := c.params
	ok, err := c.gradientAt(func(w *workspace) { w.take(p, c.User.Embedding(), c.Bias()) })
	if !ok {
		return protocol.Vector{Index: []uint32{}}, err
	}
	v, err := c.byParameters()
	if err == nil {
		c.work.step(p)
		c.keep(c.work)
	}
	return v, err
}

// take sets the solution to the numbers that a user kept, or to zero if it kept none.
func (w *workspace) take(p *Params, u []float64, bias float64) {
	clear(w.beta)
	if u == nil {
		return
	}
	copy(w.beta, u[:p.Rank])
	copy(w.beta[p.weightsAt():], u[p.Rank:])
	if p.Bias {
		w.beta[p.Rank] = bias
	}
}

// step takes a step of the user's own against the gradient of the objective of fit, divided by the
// number of ratings. The ridge counts as so many ratings.
func (w *workspace) step(p *Params) {
	slope := make([]float64, w.width)
	for i, x := range w.beta {
		slope[i] = w.ridge(p, i) * x
	}
	for k, y := range w.value {
		row := w.rows[k*w.width : (k+1)*w.width]
		dense.Axpy(slope, w.offset[k]+dense.Dot(w.beta, row)-y, row)
	}
	dense.Axpy(w.beta, -p.Descent.UserRate/(float64(len(w.value))+p.UserRidge), slope)
	for _, x := range w.beta {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			clear(w.beta)
			return
		}
	}
}
