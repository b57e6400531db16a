package fedssp

import (
	"math"
	"sync"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
)

// This file holds the client's local fit. It fits the user's embedding u and bias b to its ratings:
//
//	min  Σ_j ℓ(μ + b_j + b + <u, v_j> + <t, x_j>; y_j) + λ_u/2 (‖u‖² + ‖t‖²) + λ_b/2 b²
//
// Here t holds the user's weights of public features, if it weighs any ([UserFeatures]), and of
// popularity, if that was released. ℓ is half the squared error, except for the other losses of the
// Convex solver. With implicit feedback the target is 1 and α/2·Σ_j <u, v_j>² over all items is
// added. The fit is never sent as such.
//
// A fit never fails: for any items the result is finite or zero.

// FitUser does a client's local fit to a model. It returns u, followed by the user's weights of
// public features, and the user's own bias, 0 if users have none. The ratings must be valid for the
// settings, with items ascending (see [NewUser]).
func (p *Params) FitUser(m *Model, r model.Ratings) (u []float64, bias float64) {
	switch {
	case m.unchosen:
		return make([]float64, p.Rank+p.UserFeatures.Width()), 0
	case m.chosen != nil && !m.chosen.late:
		p = m.chosen.inner
		r, _ = m.chosen.of(r)
	}
	w := newWorkspace(p)
	defer w.free()
	w.gather(p, m, r)
	w.fit(p, m)
	return w.embedding(p, nil), w.bias(p)
}

// workspace is the memory of a fit. Users fit in it one after the other.
type workspace struct {
	width  int       // of a row: d, 1 with a bias of the user's, and the public features it weighs
	items  []int32   // the rated items
	rows   []float64 // n x width: v_j, 1 for the bias if any, popularity if weighed, x_j
	offset []float64 // μ + b_j, or its logit
	value  []float64 // y_j; for Logistic scaled to 0..1
	beta   []float64 // the solution: u, the bias if there is one, weights of features
	gram   []float64 // width x width
	solver any       // memory of the solver's fit
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

func newWorkspace(p *Params) *workspace {
	w := workspaces.Get().(*workspace)
	w.width = p.weightsAt() + p.UserFeatures.Width()
	w.beta = resize(w.beta, w.width)
	w.gram = resize(w.gram, w.width*w.width)
	return w
}

func (w *workspace) free() {
	w.items = nil // owned by the user, not to be kept alive
	workspaces.Put(w)
}

// resize returns n zeros, in the memory of x if it is large enough.
func resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	x = x[:n]
	clear(x)
	return x
}

// row is the embedding of the k-th rated item.
func (w *workspace) row(k, d int) []float64 { return w.rows[k*w.width : k*w.width+d : k*w.width+d] }

// biasWidth is 1 if users have a bias of their own, else 0.
func (p *Params) biasWidth() int {
	if p.Bias {
		return 1
	}
	return 0
}

// popularWidth is 1 if clients weigh popularity for their users, else 0.
func (p *Params) popularWidth() int {
	if p.Popularity > 0 {
		return 1
	}
	return 0
}

// weightsAt is where weights of features begin in a row: after v_j, the bias's 1 and popularity.
func (p *Params) weightsAt() int { return p.Rank + p.biasWidth() + p.popularWidth() }

// ownWidth counts the weights after u in the numbers that a client keeps: of popularity and of
// features.
func (p *Params) ownWidth() int { return p.popularWidth() + p.UserFeatures.Width() }

// bias is the user's bias after a fit.
func (w *workspace) bias(p *Params) float64 {
	if !p.Bias {
		return 0
	}
	return w.beta[p.Rank]
}

// embedding appends u and weights of features to dst, after a fit.
func (w *workspace) embedding(p *Params, dst []float64) []float64 {
	return append(append(dst, w.beta[:p.Rank]...), w.beta[p.Rank+p.biasWidth():]...)
}

// own is the part of the k-th prediction that follows from bias and weights, after a fit.
func (w *workspace) own(k, d int) float64 {
	return dense.Dot(w.beta[d:], w.rows[k*w.width+d:(k+1)*w.width])
}

// residuals fits the user without V, and writes the residuals of its ratings, in stars, to dst.
func (w *workspace) residuals(p *Params, m shared, r model.Ratings, dst []float64) {
	w.gather(p, m, r)
	for k := range r.Items {
		clear(w.row(k, p.Rank))
	}
	w.fit(p, m)
	for k := range dst {
		x := w.offset[k] + w.own(k, p.Rank)
		if p.logistic() {
			dst[k] = (w.value[k] - sigmoid(x)) * (p.Max - p.Min)
		} else {
			dst[k] = w.value[k] - x
		}
	}
}

// gather collects the parts of the model that a user's ratings touch.
func (w *workspace) gather(p *Params, m shared, r model.Ratings) {
	n, s := len(r.Items), p.scale()
	w.items = r.Items
	w.rows, w.offset, w.value = resize(w.rows, n*w.width), resize(w.offset, n), resize(w.value, n)
	centre := m.centre()
	for k, item := range r.Items {
		j := int(item)
		row := w.rows[k*w.width : (k+1)*w.width]
		copy(row, m.row(j, row[:p.Rank]))
		if p.Bias {
			row[p.Rank] = 1
		}
		if p.popularWidth() > 0 {
			row[p.weightsAt()-1] = m.popularity(j)
		}
		if p.UserFeatures != nil {
			p.UserFeatures.row(j, row[p.weightsAt():])
		}
		if p.Feedback == Implicit {
			w.value[k] = 1
			continue
		}
		w.offset[k] = s.offset(centre, m.itemBias(j))
		w.value[k] = float64(r.Values[k])
		if s.logistic {
			w.value[k] = (w.value[k] - p.Min) / (p.Max - p.Min)
		}
	}
}

// ridge is λ of coordinate i of beta.
func (w *workspace) ridge(p *Params, i int) float64 {
	if p.Bias && i == p.Rank {
		return p.UserBiasRidge
	}
	return p.UserRidge
}

// fit solves for beta.
func (w *workspace) fit(p *Params, m shared) {
	clear(w.beta)
	if len(w.value) == 0 {
		return
	}
	clientSideOf(p).fit(w, p, m)
	for _, x := range w.beta {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			clear(w.beta)
			return
		}
	}
}

// leastSquares solves (XᵀX + Λ) beta = Xᵀ(y - offset).
func (w *workspace) leastSquares(p *Params, m shared) {
	if p.Feedback == Implicit {
		dense.Unpack(w.gram, m.packedGramian(), p.Rank, p.Unobserved)
	}
	head := p.weightsAt()
	dense.AddOuter(w.gram, w.rows, head, w.width)
	if p.UserFeatures != nil {
		w.addUserFeatures(p.UserFeatures, head)
	}
	for i := range w.width {
		w.gram[i*w.width+i] += w.ridge(p, i)
	}
	for k, y := range w.value {
		dense.Axpy(w.beta, y-w.offset[k], w.rows[k*w.width:(k+1)*w.width])
	}
	if !dense.SolveUpper(w.gram, w.beta, w.width) {
		clear(w.beta)
	}
}

// addUserFeatures adds the part of Σ x xᵀ that weights of features have, the columns from head on.
// An item has few of many features, so zeros are skipped.
func (w *workspace) addUserFeatures(t *UserFeatures, head int) {
	for k, item := range w.items {
		row := w.rows[k*w.width : (k+1)*w.width]
		columns := t.columns(int(item))
		for i, c := range columns {
			at := (head + c) * w.width
			dense.Axpy(w.gram[at:at+head], row[head+c], row[:head]) // below the diagonal, where a row is contiguous
			for _, o := range columns[i:] {
				w.gram[at+head+o] += row[head+c] * row[head+o]
			}
		}
	}
	for c := head; c < w.width; c++ {
		for i, x := range w.gram[c*w.width : c*w.width+head] {
			w.gram[i*w.width+c] = x
		}
	}
}

// clipUser scales u, finite after a fit, down to norm bound if it is longer. Afterwards ‖u‖ <= Γ_u
// for any fit; a u whose norm overflows becomes zero. The scale is a little smaller than necessary:
// rounding must not move a u of one coordinate, or its square, past the bound, which is also
// declared for every coordinate.
func clipUser(u []float64, bound float64) {
	const less = 1 - 1e-15
	if norm := math.Sqrt(dense.Dot(u, u)); norm > bound {
		for i := range u {
			u[i] *= bound / norm * less
		}
	}
}
