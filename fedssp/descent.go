package fedssp

import (
	"errors"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// This file holds the part of users in the solvers that take gradients. A plan brings V, which
// users are fitted to, and the parameters that the gradient is taken at. Within an outer step the
// parameters move from sum to sum and V stays. So a client fits its user anew and gets the same u
// without keeping it.
//
// The bound on a user's addition is enforced last, whatever was broadcast. [Gradient] clips the
// gradient of each rating to Γ and multiplies it by the rating's weight. Rows of different items
// stand at different coordinates and Σ_j w_j² <= 1 (weights.go). So the norm of the whole is √(Σ
// w_j² ‖g_j‖²) <= Γ (multi-task paper, Theorem 3.11). [EncoderGradient] and [Joint] sum the
// gradients of all of a user's ratings by the same parameters, and clip the sum to Γ.

// DescentParams holds the settings of the solvers that take gradients.
type DescentParams struct {
	// Clip is Γ, the largest norm of a gradient of half the squared error. [Gradient] clips each
	// rating's gradient by its item; the other solvers clip the gradient of all of a user's ratings
	// by the encoder's parameters.
	Clip float64
	// Radius is the largest norm of an item, Rate multiplies the steps of items; [Gradient] only.
	Radius, Rate float64
	// UserRate is the length of a user's own step, as a fraction of a step against the mean
	// gradient of its ratings; [Joint] only.
	UserRate float64
}

func (x DescentParams) check(p *Params, e *problems) {
	e.within(clipGradientKey, x.Clip)
	if f, s := p.Solver.encoder(p); p.Items >= 1 && p.Rank >= 1 {
		if n := encoder.Parameters(f, p.Items, p.Rank, s); n > protocol.MaxLen {
			e.add("the encoder has %.3g parameters; a gradient has at most %d: lower the rank or dim, or give fewer features", n, protocol.MaxLen)
		}
	}
}

// descending is a solver that takes steps against sums of gradients.
type descending struct{ plainSolver }

var clipGradientKey config.NumberKey

func declareDescent() {
	clipGradientKey = number("gradient.clip", clips(), settings.descends, "0.5; 1 without noise", "Largest norm of a gradient: of each rating by its item, or of all of a user's by the encoder.",
		always(func(s settings) float64 { return either(s.private(), 0.5, 1) }))
}

// read makes one schedule of steps for the whole run.
func (descending) read(p *Params, s settings) {
	p.Descent.Clip, p.Encoder = clipGradientKey.Value(s.Config), encoderOf(s.Config)
	p.Encoder.Steps, p.Encoder.WarmStart = p.Rounds*p.Resample, true
}

func (descending) encodes(*Params) bool    { return true }
func (descending) speaks(*Params) bool     { return true }
func (descending) exact() bool             { return true }
func (descending) secondOrder() bool       { return false }
func (descending) bound(p *Params) float64 { return p.Descent.Clip }

func (descending) check(p *Params, e *problems) {
	checkExplicit(p, e)
	checkUserRidge(p, e)
	if p.Rounds > 0 {
		p.Descent.check(p, e)
	}
}

func (descending) numbers(p *Params) int { return p.parameters() }

func (descending) open(p *Params, v *broadcast, take func(int, *[]byte)) {
	take(p.parameters(), &v.theta)
}

func (descending) planned(s *Strategy, m *Model) { m.Theta = s.encoder.Theta() }

// settle moves V to the parameters, which V does not follow within an outer step.
func (descending) settle(s *Strategy, m *Model) {
	if s.encoded {
		m.Items = make([]float64, len(m.Items))
		s.encoder.Embed(m.Items, protocol.Workers(1))
	}
}

// descended moves V after a step, at the end of an outer step.
func (s *Strategy) descended(run protocol.Runner) {
	s.encoded = true
	s.follow(run)
}

// gradientAt prepares the user's gradient: the parameters it is taken at, the user's ratings, and
// u, which the given function fits. It returns false if the gradient is zero.
func (c *contribution) gradientAt(fit func(w *workspace)) (bool, error) {
	if err := c.weigh(); err != nil {
		return false, err
	}
	if in, err := c.inBatch(); err != nil || !in {
		return false, err
	}
	if c.model.theta == nil {
		return false, errors.New("the model has no parameters to take the gradient at")
	}
	c.work = newWorkspace(c.params)
	c.work.gather(c.params, c.model, c.ratings)
	fit(c.work)
	c.keep(c.work)
	clipUser(c.embedding(), farthest) // lest later sums overflow; the bound does not need it
	return true, nil
}

// parameters counts the numbers of an encoder's gradient.
func (p *Params) parameters() int {
	f, s := p.Solver.encoder(p)
	return int(encoder.Parameters(f, p.Items, p.Rank, s))
}

// residual is the prediction of the chosen rating i, by an item of embedding v, less the rating,
// times its weight.
func (c *contribution) residual(i int, v []float64) float64 {
	k, w := c.chosen[i], c.work
	return c.weights[i] * (w.offset[k] + w.own(k, c.params.Rank) + dense.Dot(c.embedding(), v) - w.value[k])
}

// parameters fills dst with the parameters that gradients are taken at, beginning at a place.
func (v broadcast) parameters(from int, dst []float64) []float64 {
	for i := range dst {
		dst[i] = tame(floatAt(v.theta, from+i), farthest)
	}
	return dst
}

// sums counts the sums of statistics before this round's.
func (s *Strategy) sums() int {
	p := &s.params.Params
	return int(s.round) - 1 - (len(s.params.Steps) - p.Rounds*p.Resample)
}
