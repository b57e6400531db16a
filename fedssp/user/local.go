package user

import (
	"math"
	"sync"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
)

// This file holds the client's local fit. It fits the user's embedding u and bias b to its ratings:
//
//	min  Σ_j ℓ(μ + b_j + b + <u, v_j> + <t, x_j>; y_j) + λ_u/2 (‖u‖² + ‖t‖²) + λ_b/2 b²
//
// Here t holds the user's weights of public features, if it weighs any ([kernel.UserFeatures]), and of
// popularity, if that was released. ℓ is half the squared error, except for the other losses of the
// Convex solver. With implicit feedback the target is 1 and α/2·Σ_j <u, v_j>² over all items is
// added. The fit is never sent as such.
//
// A fit never fails: for any items the result is finite or zero.

// Fit does a client's local fit to a model. It returns u, followed by the user's weights of
// public features, and the user's own bias, 0 if users have none. The ratings must be valid for the
// settings, with items ascending (see [fedssp.NewUser]).
func Fit(p *kernel.Params, m *kernel.Model, r model.Ratings) (u []float64, bias float64) {
	switch {
	case m.Unchosen:
		return make([]float64, p.Rank+p.UserFeatures.Width()), 0
	case m.Chosen != nil && !m.Chosen.Late:
		p = m.Chosen.Inner
		r, _ = m.Chosen.Of(r)
	}
	w := NewWorkspace(p)
	defer w.Free()
	w.Gather(p, m, r)
	w.Fit(p, m)
	return w.embedding(p, nil), w.bias(p)
}

// Workspace is the memory of a fit. Users fit in it one after the other.
type Workspace struct {
	Width  int       // of a row: d, 1 with a bias of the user's, and the public features it weighs
	Items  []int32   // the rated items
	Rows   []float64 // n x width: v_j, 1 for the bias if any, popularity if weighed, x_j
	Offset []float64 // μ + b_j, or its logit
	Value  []float64 // y_j; for Logistic scaled to 0..1
	Beta   []float64 // the solution: u, the bias if there is one, weights of features
	Gram   []float64 // width x width
	Solver any       // memory of the solver's fit
}

var workspaces = sync.Pool{New: func() any { return new(Workspace) }}

// NewWorkspace takes the memory of a fit from a pool. Free gives it back.
func NewWorkspace(p *kernel.Params) *Workspace {
	w := workspaces.Get().(*Workspace)
	w.Width = p.WeightsAt() + p.UserFeatures.Width()
	w.Beta = Resize(w.Beta, w.Width)
	w.Gram = Resize(w.Gram, w.Width*w.Width)
	return w
}

// Free gives the memory back. It must not be used any more.
func (w *Workspace) Free() {
	w.Items = nil // owned by the user, not to be kept alive
	workspaces.Put(w)
}

// Resize returns n zeros, in the memory of x if it is large enough.
func Resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	x = x[:n]
	clear(x)
	return x
}

// Row is the embedding of the k-th rated item.
func (w *Workspace) Row(k, d int) []float64 { return w.Rows[k*w.Width : k*w.Width+d : k*w.Width+d] }

// bias is the user's bias after a fit.
func (w *Workspace) bias(p *kernel.Params) float64 {
	if !p.Bias {
		return 0
	}
	return w.Beta[p.Rank]
}

// embedding appends u and weights of features to dst, after a fit.
func (w *Workspace) embedding(p *kernel.Params, dst []float64) []float64 {
	return append(append(dst, w.Beta[:p.Rank]...), w.Beta[p.Rank+p.BiasWidth():]...)
}

// Own is the part of the k-th prediction that follows from bias and weights, after a fit.
func (w *Workspace) Own(k, d int) float64 {
	return dense.Dot(w.Beta[d:], w.Rows[k*w.Width+d:(k+1)*w.Width])
}

// Residuals fits the user without V, and writes the residuals of its ratings, in stars, to dst.
func (w *Workspace) Residuals(p *kernel.Params, m kernel.Shared, r model.Ratings, dst []float64) {
	w.Gather(p, m, r)
	for k := range r.Items {
		clear(w.Row(k, p.Rank))
	}
	w.Fit(p, m)
	for k := range dst {
		x := w.Offset[k] + w.Own(k, p.Rank)
		if p.Logistic() {
			dst[k] = (w.Value[k] - kernel.Sigmoid(x)) * (p.Max - p.Min)
		} else {
			dst[k] = w.Value[k] - x
		}
	}
}

// Gather collects the parts of the model that a user's ratings touch.
func (w *Workspace) Gather(p *kernel.Params, m kernel.Shared, r model.Ratings) {
	n, s := len(r.Items), p.Scale()
	w.Items = r.Items
	w.Rows, w.Offset, w.Value = Resize(w.Rows, n*w.Width), Resize(w.Offset, n), Resize(w.Value, n)
	centre := m.Centre()
	for k, item := range r.Items {
		j := int(item)
		row := w.Rows[k*w.Width : (k+1)*w.Width]
		copy(row, m.Row(j, row[:p.Rank]))
		if p.Bias {
			row[p.Rank] = 1
		}
		if p.PopularWidth() > 0 {
			row[p.WeightsAt()-1] = m.PopularityOf(j)
		}
		if p.UserFeatures != nil {
			p.UserFeatures.Row(j, row[p.WeightsAt():])
		}
		if p.Feedback == kernel.Implicit {
			w.Value[k] = 1
			continue
		}
		w.Offset[k] = s.Offset(centre, m.ItemBias(j))
		w.Value[k] = float64(r.Values[k])
		if s.Logistic {
			w.Value[k] = (w.Value[k] - p.Min) / (p.Max - p.Min)
		}
	}
}

// Ridge is λ of coordinate i of beta.
func (w *Workspace) Ridge(p *kernel.Params, i int) float64 {
	if p.Bias && i == p.Rank {
		return p.UserBiasRidge
	}
	return p.UserRidge
}

// Fit solves for beta.
func (w *Workspace) Fit(p *kernel.Params, m kernel.Shared) {
	clear(w.Beta)
	if len(w.Value) == 0 {
		return
	}
	solverOf(p).Fit(w, p, m)
	for _, x := range w.Beta {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			clear(w.Beta)
			return
		}
	}
}

// LeastSquares solves (XᵀX + Λ) beta = Xᵀ(y - offset).
func (w *Workspace) LeastSquares(p *kernel.Params, m kernel.Shared) {
	if p.Feedback == kernel.Implicit {
		dense.Unpack(w.Gram, m.PackedGramian(), p.Rank, p.Unobserved)
	}
	head := p.WeightsAt()
	dense.AddOuter(w.Gram, w.Rows, head, w.Width)
	if p.UserFeatures != nil {
		w.AddUserFeatures(p.UserFeatures, head)
	}
	for i := range w.Width {
		w.Gram[i*w.Width+i] += w.Ridge(p, i)
	}
	for k, y := range w.Value {
		dense.Axpy(w.Beta, y-w.Offset[k], w.Rows[k*w.Width:(k+1)*w.Width])
	}
	if !dense.SolveUpper(w.Gram, w.Beta, w.Width) {
		clear(w.Beta)
	}
}

// AddUserFeatures adds the part of Σ x xᵀ that weights of features have, the columns from head on.
// An item has few of many features, so zeros are skipped.
func (w *Workspace) AddUserFeatures(t *kernel.UserFeatures, head int) {
	for k, item := range w.Items {
		row := w.Rows[k*w.Width : (k+1)*w.Width]
		columns := t.Columns(int(item))
		for i, c := range columns {
			at := (head + c) * w.Width
			dense.Axpy(w.Gram[at:at+head], row[head+c], row[:head]) // below the diagonal, where a row is contiguous
			for _, o := range columns[i:] {
				w.Gram[at+head+o] += row[head+c] * row[head+o]
			}
		}
	}
	for c := head; c < w.Width; c++ {
		for i, x := range w.Gram[c*w.Width : c*w.Width+head] {
			w.Gram[i*w.Width+c] = x
		}
	}
}

// ClipUser scales u, finite after a fit, down to norm bound if it is longer. Afterwards ‖u‖ <= Γ_u
// for any fit; a u whose norm overflows becomes zero. The scale is a little smaller than necessary:
// rounding must not move a u of one coordinate, or its square, past the bound, which is also
// declared for every coordinate.
func ClipUser(u []float64, bound float64) {
	const less = 1 - 1e-15
	if norm := math.Sqrt(dense.Dot(u, u)); norm > bound {
		for i := range u {
			u[i] *= bound / norm * less
		}
	}
}
