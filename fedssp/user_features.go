package fedssp

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
)

// UserFeatures holds the public features that a client weighs for its own user. A weight says, for
// example, how much the user likes Westerns. The client fits the weights, they never leave it, and
// they cost no privacy. A prediction is then
//
//	μ + b_i + b_j + <u_i, v_j> + <t_i, x_j>
//
// and statistics sum the residuals that t_i leaves. The ridge λ_u holds t_i like u_i. The size of
// x_j sets how strongly users are expected to differ in t_i. Ours.
type UserFeatures struct {
	width  int
	start  []int
	column []int
	value  []float64
}

// maxUserFeatures is the most features that a client weighs. It solves for all weights together.
const maxUserFeatures = 64

// NewUserFeatures takes the features of items, the commonest if there are many. It returns nil for
// nil, for weight 0, and if no two items share a value. Features of an item have the norm weight,
// positive and finite, in each category.
func NewUserFeatures(f *dataset.ItemFeatures, weight float64) *UserFeatures {
	if f == nil || weight == 0 {
		return nil
	}
	columns, _ := commonest(f, maxUserFeatures)
	t := &UserFeatures{start: []int{0}}
	for _, c := range columns {
		for _, column := range c {
			t.width = max(t.width, column+1)
		}
	}
	for j := range f.Items {
		for c := range f.Categories {
			from := len(t.value)
			t.column, t.value = appendFeatures(t.column, t.value, &f.Categories[c], columns[c], j)
			floats.Scale(weight, t.value[from:])
		}
		t.start = append(t.start, len(t.column))
	}
	if t.width == 0 {
		return nil
	}
	return t
}

// Width counts the features; 0 for nil.
func (t *UserFeatures) Width() int {
	if t == nil {
		return 0
	}
	return t.width
}

// pick returns the features of some items, in the same columns; nil for nil.
func (t *UserFeatures) pick(items []int32) *UserFeatures {
	if t == nil {
		return nil
	}
	out := &UserFeatures{width: t.width, start: make([]int, 1, len(items)+1)}
	for _, j := range items {
		from, to := t.start[j], t.start[j+1]
		out.column, out.value = append(out.column, t.column[from:to]...), append(out.value, t.value[from:to]...)
		out.start = append(out.start, len(out.column))
	}
	return out
}

// columns lists the columns in which x_j is not zero, ascending.
func (t *UserFeatures) columns(j int) []int { return t.column[t.start[j]:t.start[j+1]] }

// row writes x_j over zeros.
func (t *UserFeatures) row(j int, dst []float64) {
	for k := t.start[j]; k < t.start[j+1]; k++ {
		dst[t.column[k]] = t.value[k]
	}
}

// of is <t, x_j>.
func (t *UserFeatures) of(weights []float64, j int) float64 {
	var x float64
	if t == nil {
		return 0
	}
	for k := t.start[j]; k < t.start[j+1]; k++ {
		x += weights[t.column[k]] * t.value[k]
	}
	return x
}

// commonest gives columns to the values that most items have, at most limit of them, in the order
// of categories and vocabularies. It returns for each value of each category its column, or -1, and
// for each column its category. A value that only one item has says nothing about others.
func commonest(f *dataset.ItemFeatures, limit int) (columns [][]int, category []int) {
	type value struct{ category, value, items int }
	var all []value
	columns = make([][]int, len(f.Categories))
	for c, cat := range f.Categories {
		items := make([]int, len(cat.Values))
		for _, v := range cat.Value {
			items[v]++
		}
		columns[c] = slices.Repeat([]int{-1}, len(cat.Values))
		for v, n := range items {
			if n > 1 {
				all = append(all, value{c, v, n})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b value) int { return cmp.Compare(b.items, a.items) })
	all = all[:min(len(all), limit)]
	slices.SortFunc(all, func(a, b value) int { return cmp.Or(a.category-b.category, a.value-b.value) })
	for i, v := range all {
		columns[v.category][v.value] = i
		category = append(category, v.category)
	}
	return columns, category
}

// appendFeatures appends the features of item j in a category that have a column, scaled so that
// all the item's features in the category have norm 1.
func appendFeatures(column []int, value []float64, cat *dataset.Category, columns []int, j int) ([]int, []float64) {
	values, weights := cat.Features(j)
	norm := floats.Norm(weights, 2)
	for k, v := range values {
		if c := columns[v]; c >= 0 {
			column, value = append(column, c), append(value, weights[k]/norm)
		}
	}
	return column, value
}

// Extended returns the shared embeddings, each followed by the features that clients weigh: m x (d
// + the widths of popularity and UserFeatures), row by row. The product <Extended_j, [u_i, t_i]> is a
// prediction less the terms of item or user alone.
func (m *Model) Extended(p *Params) []float64 {
	d, width := p.Rank, p.Rank+p.ownWidth()
	out := make([]float64, p.Items*width)
	for j := range p.Items {
		row := out[j*width : (j+1)*width]
		known, _ := m.item(j, d)
		copy(row, known)
		if p.popularWidth() > 0 {
			row[d] = m.popularity(j)
		}
		if p.UserFeatures != nil {
			p.UserFeatures.row(j, row[d+p.popularWidth():])
		}
	}
	return out
}

// checkUserFeatures checks the settings of the features that a client weighs.
func (p *Params) checkUserFeatures(e *problems) {
	if p.UserFeatures == nil {
		return
	}
	if p.Feedback == Implicit {
		e.add("weights of public features are for explicit feedback")
	}
	if n := len(p.UserFeatures.start) - 1; n != p.Items {
		e.add("the weights are of features of %d items; there are %d", n, p.Items)
	}
	if x := floats.Norm(p.UserFeatures.value, math.Inf(1)); !(x > 0) || math.IsInf(x, 1) {
		e.add("the features that users weigh are as large as %v; they must be finite, and not all zero", x)
	}
}
