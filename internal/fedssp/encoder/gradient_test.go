package encoder

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/internal/effort"
)

// loss is the objective of a batch as a function of θ, by way of Embed.
func (e *Encoder) loss(o Objective, batch []int32) float64 {
	v, g, sum := make([]float64, e.items*e.rank), make([]float64, e.rank), 0.0
	e.Embed(v, serial)
	for _, j := range batch {
		sum += o.Gradient(int(j), v[int(j)*e.rank:(int(j)+1)*e.rank], g)
	}
	return sum/float64(len(batch)) + e.settings.Ridge/2*floats.Dot(e.theta, e.theta)
}

// Every coordinate of the gradient of every block of parameters is compared with central
// differences of the loss. The loss is quadratic in one coordinate, so the differences are exact
// except for rounding: at a width of 1e-3 below 1e-11.
func TestGradientDifferences(t *testing.T) {
	const width = 1e-3
	for _, c := range variants() {
		e, _ := c.build(t, 12, 3)
		o := newQuadratic(12, 3)
		theta := slices.Clone(e.theta)
		e.deal(7, 0, true)
		e.pass.objective = o
		batch := slices.Clone(e.pass.batch)
		if want := c.settings.Batch; want != 0 && len(batch) != want {
			t.Fatalf("%s: a batch of %d", c.name, len(batch))
		}
		before := e.loss(o, batch) - e.settings.Ridge/2*floats.Dot(theta, theta)
		e.deal(7, 0, true)
		if got := e.step(0, serial); math.Abs(got-before) > 1e-12 {
			t.Errorf("%s: the step reports a loss of %v, want %v", c.name, got, before)
		}
		grad, nonzero := slices.Clone(e.pass.grad), 0
		copy(e.theta, theta)
		for i := range theta {
			e.theta[i] = theta[i] + width
			above := e.loss(o, batch)
			e.theta[i] = theta[i] - width
			want := (above - e.loss(o, batch)) / (2 * width)
			e.theta[i] = theta[i]
			if math.Abs(grad[i]-want) > 1e-11 {
				t.Errorf("%s: parameter %d of %d: gradient %v, want %v", c.name, i, len(theta), grad[i], want)
			}
			if want != 0 {
				nonzero++
			}
		}
		if nonzero < len(theta)/4 {
			t.Errorf("%s: only %d of %d parameters have a gradient", c.name, nonzero, len(theta))
		}
	}
}

// Over many blocks and shares, and batches of hundreds: against the chain rule on whole
// matrices.
func TestGradientOfMany(t *testing.T) {
	effort.NotShort(t, "whole matrices of 1,500 items; TestGradientDifferences has few")
	const items, rank = 1500, 3
	o := newQuadratic(items, rank)
	for _, c := range variants() {
		for _, batch := range []int{0, 400} {
			c.settings.Batch = batch
			e, f := c.build(t, items, rank)
			e.pass.objective = o
			for step := range 3 {
				e.deal(7, step, step == 0)
				want, loss := newReference(e, f).gradient(o, e.pass.batch)
				got := e.step(step, serial)
				if d := furthest(e.pass.grad, want); d > 1e-13 || math.Abs(got-loss) > 1e-12 {
					t.Errorf("%s, batches of %d, step %d: the gradient is off by %v, the loss %v, want %v", c.name, batch, step, d, got, loss)
				}
			}
		}
	}
}
