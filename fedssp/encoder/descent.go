package encoder

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/internal/dense"
)

// In DP-SGD the gradient by θ does not come from statistics of items. Clients compute it with
// [Encoder.Gradient], and the server takes the steps with [Encoder.Descend].

// Theta returns the parameters: embeddings category by category and value by value, then the dense
// layer, hidden x rank, row by row. Not a copy.
func (e *Encoder) Theta() []float64 { return e.theta }

// Gradient adds to grad the gradient, at the given θ, of the sum of losses of single items'
// embeddings: lines 6 to 8 of Algorithm 6 of the paper. Loss k belongs to item items[k]. slope
// writes its gradient by the item's embedding v to g, both of length rank. Gradient reads only the
// fixed layout that New made, and changes nothing, so clients may share an encoder and call it
// concurrently.
func (e *Encoder) Gradient(theta []float64, items []int32, slope func(k int, v, g []float64), grad []float64) {
	dim, d := e.settings.Dim, e.rank
	h, v, g := make([]float64, e.hidden), make([]float64, d), make([]float64, d)
	back := g
	at := len(theta) - len(e.dense)
	layer, byLayer := theta[at:], grad[at:]
	if e.settings.Dense {
		back = make([]float64, e.hidden)
	} else {
		v = h
	}
	for k, j := range items {
		clear(h)
		for i := range e.bags {
			b := &e.bags[i]
			for p := b.byItem.start[j]; p < b.byItem.start[j+1]; p++ {
				floats.AddScaled(h[b.column:b.column+dim], b.byItem.weight[p], theta[b.first+int(b.byItem.index[p])*dim:][:dim])
			}
		}
		if e.settings.Dense {
			blas64.Gemv(blas.Trans, 1, dense.General(layer, e.hidden, d), dense.Vector(h), 0, dense.Vector(v))
		}
		slope(k, v, g)
		if e.settings.Dense {
			blas64.Ger(1, dense.Vector(h), dense.Vector(g), dense.General(byLayer, e.hidden, d))
			blas64.Gemv(blas.NoTrans, 1, dense.General(layer, e.hidden, d), dense.Vector(g), 0, dense.Vector(back))
		}
		for i := range e.bags {
			b := &e.bags[i]
			for p := b.byItem.start[j]; p < b.byItem.start[j+1]; p++ {
				floats.AddScaled(grad[b.first+int(b.byItem.index[p])*dim:][:dim], b.byItem.weight[p], back[b.column:b.column+dim])
			}
		}
	}
}

// Descend takes a step, counted from 0 to Settings.Steps - 1, against a gradient by θ. It adds the
// ridge to grad. If θ is no longer finite, θ returns to the public start, and the error is an
// [ErrDiverged].
func (e *Encoder) Descend(grad []float64, step int) error {
	floats.AddScaled(grad, e.settings.Ridge, e.theta)
	e.opt.begin(e.settings.rate(step))
	e.opt.take(e.theta, grad, 0)
	for _, x := range e.theta {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return e.diverged(uint64(step+1), fmt.Sprintf("the parameters hold %v after it", x))
		}
	}
	return nil
}
