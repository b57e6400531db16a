package kernel

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

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
	Start  []int
	column []int
	Value  []float64

	grouped sync.Once
	kind    []int32 // of each item; items of one kind have the same features
	first   []int32 // an item of each kind
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
	columns, _ := Commonest(f, maxUserFeatures)
	t := &UserFeatures{Start: []int{0}}
	for _, c := range columns {
		for _, column := range c {
			t.width = max(t.width, column+1)
		}
	}
	for j := range f.Items {
		for c := range f.Categories {
			from := len(t.Value)
			t.column, t.Value = AppendFeatures(t.column, t.Value, &f.Categories[c], columns[c], j)
			floats.Scale(weight, t.Value[from:])
		}
		t.Start = append(t.Start, len(t.column))
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

// Pick returns the features of some items, in the same columns; nil for nil.
func (t *UserFeatures) Pick(items []int32) *UserFeatures {
	if t == nil {
		return nil
	}
	out := &UserFeatures{width: t.width, Start: make([]int, 1, len(items)+1)}
	for _, j := range items {
		from, to := t.Start[j], t.Start[j+1]
		out.column, out.Value = append(out.column, t.column[from:to]...), append(out.Value, t.Value[from:to]...)
		out.Start = append(out.Start, len(out.column))
	}
	return out
}

// Features lists the columns in which x_j is not zero, ascending, and its values there.
func (t *UserFeatures) Features(j int) (columns []int, values []float64) {
	from, to := t.Start[j], t.Start[j+1]
	columns = t.column[from:to]
	return columns, t.Value[from:to][:len(columns)]
}

// Row writes x_j over zeros.
func (t *UserFeatures) Row(j int, dst []float64) {
	for k := t.Start[j]; k < t.Start[j+1]; k++ {
		dst[t.column[k]] = t.Value[k]
	}
}

// Of is <t, x_j>.
func (t *UserFeatures) Of(weights []float64, j int) float64 {
	var x float64
	if t == nil {
		return 0
	}
	for k := t.Start[j]; k < t.Start[j+1]; k++ {
		x += weights[t.column[k]] * t.Value[k]
	}
	return x
}

// OfKinds writes <t, x_j> of the items of each kind, and returns the kinds of all items.
func (t *UserFeatures) OfKinds(weights, dst []float64) (kind []int32) {
	for k, j := range t.first {
		dst[k] = t.Of(weights, int(j))
	}
	return t.kind
}

// Kinds counts the different sets of features that items have.
func (t *UserFeatures) Kinds() int {
	if t == nil {
		return 0
	}
	t.grouped.Do(func() {
		known := make(map[string]int32)
		var key []byte
		for j := range t.Start[1:] {
			key = key[:0]
			columns, values := t.Features(j)
			for i, c := range columns {
				key = AppendFloats(binary.LittleEndian.AppendUint64(key, uint64(c)), values[i])
			}
			k, ok := known[string(key)]
			if !ok {
				k = int32(len(t.first))
				known[string(key)], t.first = k, append(t.first, int32(j))
			}
			t.kind = append(t.kind, k)
		}
	})
	return len(t.first)
}

// Commonest gives columns to the values that most items have, at most limit of them, in the order
// of categories and vocabularies. It returns for each value of each category its column, or -1, and
// for each column its category. A value that only one item has says nothing about others.
func Commonest(f *dataset.ItemFeatures, limit int) (columns [][]int, category []int) {
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

// AppendFeatures appends the features of item j in a category that have a column, scaled so that
// all the item's features in the category have norm 1.
func AppendFeatures(column []int, value []float64, cat *dataset.Category, columns []int, j int) ([]int, []float64) {
	values, weights := cat.Features(j)
	norm := floats.Norm(weights, 2)
	for k, v := range values {
		if c := columns[v]; c >= 0 {
			column, value = append(column, c), append(value, weights[k]/norm)
		}
	}
	return column, value
}
