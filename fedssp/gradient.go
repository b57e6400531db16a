package fedssp

import (
	"errors"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// What users of the solvers that take gradients add to a sum. Besides what users are fitted to, V, a plan brings the
// parameters that the gradient is taken at: within an outer step these move from sum to sum and V stays, so that a
// client fits its user anew and comes to the same u without having to keep it.
//
// The bound on what a user adds holds last and whatever was broadcast. [Gradient] clips that of each rating to Γ and
// multiplies it by the rating's weight; rows of different items stand at different coordinates and Σ_j w_j² <= 1
// (weights.go), so that the norm of all is √(Σ w_j² ‖g_j‖²) <= Γ (multi-task paper, Theorem 3.11). [EncoderGradient] and [Joint]
// add up what all of a user's ratings say of the same parameters, and clip the sum to Γ.

// DescentParams are the settings of the solvers that take gradients.
type DescentParams struct {
	// Clip is Γ, the largest norm of a gradient: of each rating's by its item, of half the squared error, with [Gradient];
	// of all of a user's by the encoder's parameters with the others.
	Clip float64
	// Radius is the largest norm of an item, Rate what multiplies the steps of items; [Gradient] only.
	Radius, Rate float64
	// UserRate is the length of a user's own step, as a part of one against the mean gradient of its ratings; [Joint] only.
	UserRate float64
}

func (x DescentParams) check(p *Params, e *problems) {
	e.positive("clip", x.Clip)
	if p.Solver == Gradient {
		e.positive("radius", x.Radius)
		e.positive("rate", x.Rate)
	}
	if p.Solver == Joint {
		e.positive("user-rate", x.UserRate)
	}
	if f, s := p.encoded(); p.Items >= 1 && p.Rank >= 1 {
		if n := encoder.Parameters(f, p.Items, p.Rank, s); n > protocol.MaxLen {
			e.add("the encoder has %.3g parameters; a gradient has at most %d: lower the rank or dim, or give fewer features", n, protocol.MaxLen)
		}
	}
}

// descends reports whether steps are taken against sums of gradients.
func (p *Params) descends() bool { return p.Solver.descends() }

func (s Solver) descends() bool { return s == Gradient || s.byUser() }

// byUser reports whether a user's gradient is clipped as a whole.
func (p *Params) byUser() bool { return p.Solver.byUser() }

func (s Solver) byUser() bool { return s == EncoderGradient || s == Joint }

// weighsItems reports whether how much items were rated is released.
func (p *Params) weighsItems() bool { return p.Bias || !p.byUser() }

// encoded is what the encoder is made of. Of [Gradient] it is the table of V.
func (p *Params) encoded() (*dataset.ItemFeatures, encoder.Settings) {
	if p.Solver != Gradient {
		return p.Features, p.Encoder
	}
	return nil, encoder.Settings{
		IDs: true, StartNorm: p.StartSpread * math.Sqrt(float64(p.Rank)),
		Optimiser: encoder.SGD, Rate: 1, Decay: encoder.Constant, Steps: 1,
	}
}

// parameters is how many numbers a gradient of the encoder has.
func (p *Params) parameters() int {
	f, s := p.encoded()
	return int(encoder.Parameters(f, p.Items, p.Rank, s))
}

// gradientRelease is what is summed in every step.
func (p *Params) gradientRelease() protocol.Release {
	bound := p.itemsBound()
	if p.Solver == Gradient {
		return p.rows(Gradients, p.Rank, bound)
	}
	n := p.parameters()
	return protocol.Release{Name: ByEncoder, Len: n, L2: bound, LInf: bound, MaxNonZero: n}
}

// gradient is what the user adds to a sum. Weights must be there.
func (c *contribution) gradient() (protocol.Vector, error) {
	if c.model.theta == nil {
		return protocol.Vector{}, errors.New("the model has no parameters to take the gradient at")
	}
	p := c.params
	c.work = newWorkspace(p)
	c.work.gather(p, c.model, c.ratings)
	if p.Solver == Joint {
		c.work.take(p, c.u, c.bias)
	} else {
		c.work.fit(p, c.model)
	}
	c.keep(c.work)
	clipUser(c.embedding(), farthest) // lest what follows overflows; the bound does not need it
	if p.Solver == Gradient {
		return c.byItems(), nil
	}
	v, err := c.byParameters()
	if p.Solver == Joint && err == nil {
		c.work.step(p)
		c.keep(c.work)
	}
	return v, err
}

// residual is the prediction of the chosen rating i, by an item of embedding v, less the rating, times its weight.
func (c *contribution) residual(i int, v []float64) float64 {
	k, w := c.chosen[i], c.work
	return c.weights[i] * (w.offset[k] + w.own(k, c.params.Rank) + dense.Dot(c.embedding(), v) - w.value[k])
}

// byItems is w_j·clip_Γ((prediction - y)·u) for each item.
func (c *contribution) byItems() protocol.Vector {
	p, u := c.params, slices.Clone(c.embedding())
	const less = 1 - 1e-15 // lest rounding passes the bound
	length, at := dense.Norm(u), make([]float64, p.Rank)
	v := protocol.Vector{Index: c.items(), Block: p.Rank, Factor: make([]float64, len(c.chosen)), Value: u}
	for i := range c.chosen {
		bound := c.weights[i] * p.Descent.Clip
		if length > 0 {
			v.Factor[i] = dense.Clamp(c.residual(i, c.model.parameters(int(v.Index[i])*p.Rank, at)), bound/length*less)
		}
	}
	restrain(v.Factor, dense.Norm(v.Factor)*length, p.itemsBound())
	return v
}

// byParameters is clip_Γ(Σ_j w_j·(prediction - y)·J_j u), J_j the Jacobian of item j's embedding: line 8 of algorithm 6, with
// all of a user's ratings clipped together.
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

// shape is the encoder, of which clients use what they may share.
func (t *User) shape() (*encoder.Encoder, error) {
	if t.params.shape != nil {
		return t.params.shape, nil
	}
	return t.params.newEncoder()
}

// take sets the solution to what a user kept; zero of one that kept nothing.
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

// step takes a step of the user's own, against the gradient of what fit minimises over how many ratings there are, and the
// ridge counts as so many.
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
