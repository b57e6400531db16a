package kernel

import "github.com/fedsim/fedsim/internal/dense"

// LineOf is the length of a line: the head of an item's row, room for the target of a rating, and
// zeros up to a multiple of [dense.Lane].
func LineOf(p *Params) int { return (p.WeightsAt() + dense.Lane) / dense.Lane * dense.Lane }

// Line writes the head of an item's row to dst, which becomes a line: v_j, 1 for the bias if there
// is one, popularity if it is weighed, zeros. It returns the offset of the item's ratings.
func Line(dst []float64, p *Params, m *Broadcast, s scale, centre float64, j int) (offset float64) {
	clear(dst[p.Rank:])
	copy(dst, m.Row(j, dst[:p.Rank]))
	if p.Bias {
		dst[p.Rank] = 1
	}
	if p.PopularWidth() > 0 {
		dst[p.WeightsAt()-1] = m.PopularityOf(j)
	}
	if p.Feedback == Implicit {
		return 0
	}
	return s.Offset(centre, m.ItemBias(j))
}

// Table holds the lines and offsets of all items of a model. Users who are fitted to one model in
// one process read it in place of the model.
type Table struct {
	step    int
	lines   []float64
	offsets []float64
	popular []float64
}

// tableOf reads the lines of all items that ratings may be of.
func tableOf(p *Params, m *Broadcast) *Table {
	t := &Table{step: LineOf(p), offsets: make([]float64, p.Items), popular: make([]float64, p.Items)}
	t.lines = make([]float64, p.Items*t.step)
	s, centre := p.Scale(), m.Centre()
	for j := range t.offsets {
		t.offsets[j] = Line(t.lines[j*t.step:(j+1)*t.step], p, m, s, centre, j)
		t.popular[j] = m.PopularityOf(j)
	}
	return t
}

// Copy copies the lines and offsets of some items.
func (t *Table) Copy(lines, offsets []float64, items []int32) {
	t.Offsets(offsets, items)
	if t.step == dense.Line8 {
		dense.Pick(lines, t.lines, items)
		return
	}
	step := t.step
	for k, j := range items {
		copy(lines[k*step:(k+1)*step], t.lines[int(j)*step:])
	}
}

// Popular holds the popularity of each item; zeros if there is none.
func (t *Table) Popular() []float64 { return t.popular }

// Offsets copies the offsets of some items.
func (t *Table) Offsets(dst []float64, items []int32) {
	for k, j := range items {
		dst[k] = t.offsets[j]
	}
}

// Line is the line of an item, not to be changed.
func (t *Table) Line(j int) []float64 { return t.lines[j*t.step : (j+1)*t.step : (j+1)*t.step] }

// Tabled is the model's table, if one was made.
func (v *Broadcast) Tabled() *Table { return v.table }

// Tabulate makes the table, for the settings of the items that are trained on. The model must not
// change afterwards.
func (v *Broadcast) Tabulate() {
	if !v.Unchosen {
		v.table = tableOf(v.Params, v)
	}
}
