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
	Width  int       // of a row: its head, and the public features that the user weighs
	Items  []int32   // the rated items
	Rows   []float64 // n x width: whole rows, after Spread
	Offset []float64 // μ + b_j, or its logit
	Value  []float64 // y_j; for Logistic scaled to 0..1
	Beta   []float64 // the solution: u, the bias if there is one, weights of features
	Gram   []float64 // width x width
	Solver any       // memory of the solver's fit

	head   int       // of a row: v_j, 1 for the bias if any, popularity if weighed
	heads  []float64 // n x head; an item has few features, so x_j is read from tastes
	tastes *kernel.UserFeatures
}

var workspaces = sync.Pool{New: func() any { return new(Workspace) }}

// NewWorkspace takes the memory of a fit from a pool. Free gives it back.
func NewWorkspace(p *kernel.Params) *Workspace {
	w := workspaces.Get().(*Workspace)
	w.head, w.tastes = p.WeightsAt(), p.UserFeatures
	w.Width = w.head + w.tastes.Width()
	w.Beta = Resize(w.Beta, w.Width)
	w.Gram = Resize(w.Gram, w.Width*w.Width)
	return w
}

// Free gives the memory back. It must not be used any more.
func (w *Workspace) Free() {
	w.Items, w.tastes = nil, nil // owned by others, not to be kept alive
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

// room returns n numbers, not cleared, in the memory of x if it is large enough.
func room(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n, n+n/2)
	}
	return x[:n]
}

// Row is the embedding of the k-th rated item.
func (w *Workspace) Row(k, d int) []float64 { return w.heads[k*w.head : k*w.head+d : k*w.head+d] }

// Spread writes out whole rows, for fits that multiply them as a matrix.
func (w *Workspace) Spread() {
	w.Rows = Resize(w.Rows, len(w.Items)*w.Width)
	for k, item := range w.Items {
		row := w.Rows[k*w.Width : (k+1)*w.Width]
		copy(row, w.heads[k*w.head:(k+1)*w.head])
		if w.tastes != nil {
			w.tastes.Row(int(item), row[w.head:])
		}
	}
}

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

// Own is the part of the k-th prediction that follows from bias and weights, after a fit. It skips
// zeros, and adds up as [dense.Dot] of whole rows does on amd64: four sums in turn, with what is
// left after the last four in the first.
func (w *Workspace) Own(k, d int) float64 {
	var sums [4]float64
	fours := (w.Width - d) &^ 3
	add := func(i int, x float64) {
		if i < fours {
			sums[i&3] += x
		} else {
			sums[0] += x
		}
	}
	beta := w.Beta[d:]
	for i, x := range w.heads[k*w.head+d : (k+1)*w.head] {
		add(i, beta[i]*x)
	}
	if w.tastes != nil {
		columns, values := w.tastes.Features(int(w.Items[k]))
		for i, c := range columns {
			c += w.head - d
			add(c, beta[c]*values[i])
		}
	}
	return (sums[0] + sums[2]) + (sums[1] + sums[3])
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
	w.heads, w.Offset, w.Value = room(w.heads, n*w.head), room(w.Offset, n), room(w.Value, n)
	centre := m.Centre()
	for k, item := range r.Items {
		j := int(item)
		row := w.heads[k*w.head : (k+1)*w.head]
		copy(row, m.Row(j, row[:p.Rank]))
		if p.Bias {
			row[p.Rank] = 1
		}
		if p.PopularWidth() > 0 {
			row[w.head-1] = m.PopularityOf(j)
		}
		if p.Feedback == kernel.Implicit {
			w.Offset[k], w.Value[k] = 0, 1
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
	w.AddOuter()
	for i := range w.Width {
		w.Gram[i*w.Width+i] += w.Ridge(p, i)
	}
	w.AddTargets(w.Beta)
	if !dense.SolveUpper(w.Gram, w.Beta, w.Width) {
		clear(w.Beta)
	}
}

// AddOuter adds Σ x xᵀ over rows x to the upper triangle of the Gramian. An item has few of many
// features, so zeros are skipped.
func (w *Workspace) AddOuter() {
	dense.AddOuter(w.Gram, w.Width, w.heads, w.head)
	if w.tastes == nil {
		return
	}
	head, width := w.head, w.Width
	for k, item := range w.Items {
		row := w.heads[k*head : (k+1)*head]
		columns, values := w.tastes.Features(int(item))
		for i, c := range columns {
			below := w.Gram[(head+c)*width:][:width] // of the diagonal, where the head is contiguous
			x := values[i]
			to := below[:len(row)]
			for j, y := range row {
				to[j] += x * y
			}
			to = below[head:]
			for j, o := range columns[i:] {
				to[o] += x * values[i+j]
			}
		}
	}
	for c := head; c < width; c++ {
		for i, x := range w.Gram[c*width : c*width+head] {
			w.Gram[i*width+c] = x
		}
	}
}

// AddTargets adds Σ x (y - offset) over rows x to dst.
func (w *Workspace) AddTargets(dst []float64) {
	for k, y := range w.Value {
		y -= w.Offset[k]
		row := w.heads[k*w.head : (k+1)*w.head]
		to := dst[:len(row)]
		for i, x := range row {
			to[i] += y * x
		}
		if w.tastes == nil {
			continue
		}
		columns, values := w.tastes.Features(int(w.Items[k]))
		to = dst[w.head:]
		for i, c := range columns {
			to[c] += y * values[i]
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
