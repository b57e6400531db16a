package user

import (
	"slices"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Fit solves for the user, clips u, and bounds the additions of the user's ratings. It needs the
// weights.
//
// slope returns the bounded factor of u for the chosen rating k. x is the user's own part of the
// prediction.
func (c *Contribution) Fit(slope func(k int, x float64) float64) {
	if c.Work != nil {
		return
	}
	p := c.Params
	c.Work = NewWorkspace(p)
	if c.fitted {
		c.Work.refer(p, c.Model, c.Ratings)
		c.Work.take(p, c.User)
	} else {
		c.Work.Gather(p, c.Model, c.Ratings)
		c.Work.Fit(p, c.Model)
	}
	ClipUser(c.Embedding(), p.ClipUser)
	if c.slopes == nil {
		c.slopes = make([]float64, len(c.Chosen))
	}
	u, own := c.Embedding(), c.Work.ownParts(p.Rank)
	for i, k := range c.Chosen {
		c.slopes[i] = c.Weights[i] * slope(k, c.Work.Offset[k]+own[k])
	}
	c.share = 1
	if p.NormItems > 0 {
		c.share = Restrain(c.slopes, dense.Norm(c.slopes)*dense.Norm(u), p.ItemsBound())
	}
}

// Embedding is u as it enters the statistics.
func (c *Contribution) Embedding() []float64 { return c.Work.Beta[:c.Params.Rank] }

// Target is a rating less everything in its prediction except the user's own part, x.
func (c *Contribution) Target(k int, x float64) float64 {
	return dense.Clamp(c.Work.Value[k]-x, c.Params.TargetBound())
}

// Gramian is svec(u uᵀ).
func (c *Contribution) Gramian() protocol.Vector {
	v := protocol.Vector{Value: make([]float64, c.Params.Packed())}
	dense.PackOuter(v.Value, c.Embedding())
	for i := range v.Value {
		v.Value[i] *= c.share
	}
	return v
}

// Statistics returns the user's addition to the rows of its items. Each row is a multiple of u or,
// for second order, of svec(u uᵀ) times the curvature of its rating; nil: 1. The addition of first
// order takes the memory of slopes, and is made once.
func (c *Contribution) Statistics(second bool, curvature func(k int) float64) protocol.Vector {
	p, u := c.Params, c.Embedding()
	if !second {
		return c.trainedOn(protocol.Vector{Index: c.Items(), Block: len(u), Factor: c.slopes, Value: slices.Clone(u)})
	}
	v := protocol.Vector{Index: c.Items(), Block: p.Packed(), Factor: make([]float64, len(c.Chosen)), Value: make([]float64, p.Packed())}
	dense.PackOuter(v.Value, u)
	for i, k := range c.Chosen {
		v.Factor[i] = c.share * c.Weights[i]
		if curvature != nil {
			v.Factor[i] *= curvature(k)
		}
	}
	return c.trainedOn(v)
}

// trainedOn keeps the rows of the items that statistics cover, by their places among those items,
// if weights chose them. Dropping coordinates never makes a vector longer.
func (c *Contribution) trainedOn(v protocol.Vector) protocol.Vector {
	if c.Model.Chosen == nil || !c.Model.Chosen.Late {
		return v
	}
	n := 0
	for i, j := range v.Index {
		if at := c.Model.Place(int(j)); at >= 0 {
			v.Index[n], v.Factor[n] = uint32(at), v.Factor[i]
			n++
		}
	}
	v.Index, v.Factor = v.Index[:n], v.Factor[:n]
	return v
}

// The row of a rating has a head, which is dense, and few of many features. So heads stand in lines,
// features are read from their list, and zeros are skipped.

// Gather collects the parts of the model that a user's ratings touch.
func (w *Workspace) Gather(p *kernel.Params, m *kernel.Model, r model.Ratings) {
	n := len(r.Items)
	w.Gram = Resize(w.Gram, w.Width*w.Width)
	w.Items, w.table, w.popular = r.Items, nil, nil
	w.lines, w.Offset = room(w.lines, n*w.step), room(w.Offset, n)
	if t := m.Table; t != nil {
		w.popular = t.Popular
		t.Copy(w.lines, w.Offset, r.Items)
	} else {
		s, centre := p.Scale(), m.Centre()
		for k, item := range r.Items {
			w.Offset[k] = kernel.Line(w.lines[k*w.step:(k+1)*w.step], p, m, s, centre, int(item))
		}
	}
	w.targets(p, r)
	for k, y := range w.Value {
		w.lines[k*w.step+w.head] = y - w.Offset[k]
	}
}

// refer is Gather for a solution that is known, and leaves lines in the model's table.
func (w *Workspace) refer(p *kernel.Params, m *kernel.Model, r model.Ratings) {
	w.Items, w.table, w.Offset = r.Items, m.Table, room(w.Offset, len(r.Items))
	w.popular = w.table.Popular
	w.table.Offsets(w.Offset, r.Items)
	w.targets(p, r)
}

// targets sets the values of ratings.
func (w *Workspace) targets(p *kernel.Params, r model.Ratings) {
	w.Value = room(w.Value, len(r.Items))
	switch {
	case p.Feedback == kernel.Implicit:
		for k := range w.Value {
			w.Value[k] = 1
		}
	case p.Logits:
		for k := range w.Value {
			w.Value[k] = (float64(r.Values[k]) - p.Min) / (p.Max - p.Min)
		}
	default:
		for k, y := range r.Values[:len(w.Value)] {
			w.Value[k] = float64(y)
		}
	}
}

// line is the line of the k-th rated item; its target is known after Gather only.
func (w *Workspace) line(k int) []float64 {
	if w.table != nil {
		return w.table.Line(int(w.Items[k]))
	}
	return w.lines[k*w.step : (k+1)*w.step]
}

// Row is the embedding of the k-th rated item.
func (w *Workspace) Row(k, d int) []float64 { return w.line(k)[:d:d] }

// Spread writes out whole rows, for fits that multiply them as a matrix.
func (w *Workspace) Spread() {
	w.Rows = Resize(w.Rows, len(w.Items)*w.Width)
	for k, item := range w.Items {
		row := w.Rows[k*w.Width : (k+1)*w.Width]
		copy(row, w.lines[k*w.step:][:w.head])
		if w.tastes != nil {
			w.tastes.Row(int(item), row[w.head:])
		}
	}
}

// ownParts returns [Workspace.Own] of each rating, valid until the workspace is used again.
func (w *Workspace) ownParts(d int) []float64 {
	w.own = room(w.own, len(w.Items))
	if w.popular != nil && w.tastes != nil {
		w.ownByTable(d)
		return w.own
	}
	for k := range w.own {
		w.own[k] = w.Own(k, d)
	}
	return w.own
}

// part is the place of coordinate i of n among four sums.
func part(i, n int) int {
	if i < n&^3 {
		return i & 3
	}
	return 0
}

// ownByTable sets the own parts by the model's table, without lines.
func (w *Workspace) ownByTable(d int) {
	n := w.Width - d
	beta := w.Beta[d:w.Width]
	var bias, popular [dense.Lane]float64
	i := 0
	if w.biased {
		bias[part(i, n)] = beta[i]
		i++
	}
	if i < w.head-d {
		popular[part(i, n)] = beta[i]
	}
	beta = beta[w.head-d:]
	weights := w.weights[:len(beta)]
	clear(weights)
	for c, x := range beta {
		weights[c][part(c+w.head-d, n)] = x
	}
	w.tastes.Sparse.Multiply(w.own, weights, bias, popular, w.popular, w.Items)
}

// Own is the part of the k-th prediction that follows from bias and weights, after a fit. It skips
// zeros, and adds up as [dense.Dot] of whole rows does on amd64: four sums in turn, with what is
// left after the last four in the first.
func (w *Workspace) Own(k, d int) float64 {
	var sums [dense.Lane]float64
	n := w.Width - d
	beta := w.Beta[d:w.Width]
	for i, x := range w.line(k)[d:w.head] {
		sums[part(i, n)] += beta[i] * x
	}
	if w.tastes != nil {
		columns, values := w.tastes.Features(int(w.Items[k]))
		for i, c := range columns {
			c += w.head - d
			sums[part(c, n)] += beta[c] * values[i]
		}
	}
	return (sums[0] + sums[2]) + (sums[1] + sums[3])
}

// AddProducts adds Σ x xᵀ over rows x to the upper triangle of the Gramian, and Σ x (y - offset) to
// right.
func (w *Workspace) AddProducts(right []float64) {
	head, width, full := w.head, w.Width, w.head+1
	if w.step == dense.Line8 {
		full = dense.Line8
	}
	w.top = Resize(w.top, full*full)
	for i := range head {
		copy(w.top[i*full+i:i*full+head], w.Gram[i*width+i:])
		w.top[i*full+head] = right[i]
	}
	if lines := w.lines[:len(w.Items)*w.step]; w.step == dense.Line8 {
		dense.AddSquares((*[dense.Line8 * dense.Line8]float64)(w.top), lines)
	} else {
		dense.AddOuter(w.top, full, lines, w.step, full)
	}
	for i := range head {
		copy(w.Gram[i*width+i:i*width+head], w.top[i*full+i:])
		right[i] = w.top[i*full+head]
	}
	if w.tastes != nil {
		w.addFeatures(right)
	}
}

// addFeatures adds the products with features.
func (w *Workspace) addFeatures(right []float64) {
	head, width, step := w.head, w.Width, w.step
	rows := w.tastes.Sparse
	w.sides, w.pairs = Resize(w.sides, (width-head)*step), room(w.pairs, rows.Packed())
	at := 0
	for c := head; c < width; c++ {
		w.sides[(c-head)*step+head] = right[c]
		at += copy(w.pairs[at:], w.Gram[c*width+c:(c+1)*width])
	}
	rows.AddToSides(w.sides, w.lines[:len(w.Items)*step], step, w.Items)
	rows.AddPairs(w.pairs, w.Items)
	at = 0
	for c := head; c < width; c++ {
		side := w.sides[(c-head)*step:][:step]
		for i, x := range side[:head] {
			w.Gram[i*width+c] = x
		}
		right[c] = side[head]
		at += copy(w.Gram[c*width+c:(c+1)*width], w.pairs[at:])
	}
}
