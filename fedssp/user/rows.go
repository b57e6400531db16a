package user

import (
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
)

// The row of a rating has a head, which is dense, and few of many features. So heads stand in lines,
// features are read from their list, and zeros are skipped.

// Gather collects the parts of the model that a user's ratings touch.
func (w *Workspace) Gather(p *kernel.Params, m kernel.Shared, r model.Ratings) {
	n := len(r.Items)
	w.Items, w.table = r.Items, nil
	w.lines, w.Offset = room(w.lines, n*w.step), room(w.Offset, n)
	if t := m.Tabled(); t != nil {
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

// Refer is Gather for a solution that is known, and leaves lines in the model's table.
func (w *Workspace) Refer(p *kernel.Params, m kernel.Shared, r model.Ratings) {
	w.Items, w.table, w.Offset = r.Items, m.Tabled(), room(w.Offset, len(r.Items))
	w.table.Offsets(w.Offset, r.Items)
	w.targets(p, r)
}

// targets sets the values of ratings.
func (w *Workspace) targets(p *kernel.Params, r model.Ratings) {
	w.Value = room(w.Value, len(r.Items))
	for k := range w.Value {
		y := 1.
		if p.Feedback != kernel.Implicit {
			y = float64(r.Values[k])
			if p.Logistic() {
				y = (y - p.Min) / (p.Max - p.Min)
			}
		}
		w.Value[k] = y
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

// Own is the part of the k-th prediction that follows from bias and weights, after a fit. It skips
// zeros, and adds up as [dense.Dot] of whole rows does on amd64: four sums in turn, with what is
// left after the last four in the first.
func (w *Workspace) Own(k, d int) float64 {
	var sums [4]float64
	fours := (w.Width - d) &^ 3
	beta := w.Beta[d:w.Width]
	for i, x := range w.line(k)[d:w.head] {
		at := i & 3
		if i >= fours {
			at = 0
		}
		sums[at] += beta[i] * x
	}
	if w.tastes != nil {
		columns, values := w.tastes.Features(int(w.Items[k]))
		for i, c := range columns {
			c += w.head - d
			at := c & 3
			if c >= fours {
				at = 0
			}
			sums[at] += beta[c] * values[i]
		}
	}
	return (sums[0] + sums[2]) + (sums[1] + sums[3])
}

// AddProducts adds Σ x xᵀ over rows x to the upper triangle of the Gramian, and Σ x (y - offset) to
// right.
func (w *Workspace) AddProducts(right []float64) {
	head, width, full := w.head, w.Width, w.head+1
	w.top = room(w.top, full*full)
	for i := range head {
		copy(w.top[i*full+i:i*full+head], w.Gram[i*width+i:])
		w.top[i*full+head] = right[i]
	}
	w.top[full*full-1] = 0
	dense.AddOuter(w.top, full, w.lines[:len(w.Items)*w.step], w.step, full)
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
	w.sides = Resize(w.sides, (width-head)*step)
	for c := head; c < width; c++ {
		w.sides[(c-head)*step+head] = right[c]
	}
	for k, item := range w.Items {
		line := w.lines[k*step:][:step]
		columns, values := w.tastes.Features(int(item))
		for i, c := range columns {
			x := values[i]
			addMultiple(w.sides[c*step:][:step], x, line)
			to := w.Gram[(head+c)*width+head:][:width-head]
			for j, o := range columns[i:] {
				to[o] += x * values[i+j]
			}
		}
	}
	for c := head; c < width; c++ {
		side := w.sides[(c-head)*step:][:step]
		for i, x := range side[:head] {
			w.Gram[i*width+c] = x
		}
		right[c] = side[head]
	}
}

// addMultiple adds a multiple of a line, whose length is a multiple of [kernel.Lanes].
func addMultiple(to []float64, x float64, line []float64) {
	for len(line) >= kernel.Lanes && len(to) >= kernel.Lanes {
		t, y := (*[kernel.Lanes]float64)(to), (*[kernel.Lanes]float64)(line)
		t[0] += x * y[0]
		t[1] += x * y[1]
		t[2] += x * y[2]
		t[3] += x * y[3]
		to, line = to[kernel.Lanes:], line[kernel.Lanes:]
	}
}
