package kernel

import (
	"cmp"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
)

// UserFeatures holds the public features that a client weighs for its own user. A weight says, for
// example, how much the user likes Westerns. The client fits the weights, they never leave it, and
// they cost no privacy. A prediction is then
//
//	μ + b_i + b_j + <u_i, v_j> + <t_i, x_j>
//
// and statistics sum the residuals that t_i leaves. The ridge λ_u holds t_i like u_i. The size of
// x_j sets how strongly users are expected to differ in t_i. Ours.
//
// Many items have the same features. They are listed once for each kind of item, so that the lists
// stay in the processor's caches.
type UserFeatures struct {
	width  int
	kind   []int32 // of each item
	start  []int32 // of each kind in the lists, and their end
	column []int
	value  []float64
	Sparse *dense.SparseRows // the same, as rows
}

// MaxUserFeatures is the most features that a client weighs. It solves for all weights together.
const MaxUserFeatures = 48

// NewUserFeatures takes the features of items, the commonest if there are many. It returns nil for
// nil, for weight 0, and if no two items share a value. Features of an item have the norm weight,
// positive and finite, in each category.
func NewUserFeatures(f *dataset.ItemFeatures, weight float64) *UserFeatures {
	if f == nil || weight == 0 {
		return nil
	}
	columns, _ := Commonest(f, MaxUserFeatures)
	t := &UserFeatures{start: []int32{0}}
	for _, c := range columns {
		for _, column := range c {
			t.width = max(t.width, column+1)
		}
	}
	if t.width == 0 {
		return nil
	}
	known := make(map[string]int32)
	var column []int
	var value []float64
	var key []byte
	for j := range f.Items {
		column, value, key = column[:0], value[:0], key[:0]
		for c := range f.Categories {
			from := len(value)
			column, value = AppendFeatures(column, value, &f.Categories[c], columns[c], j)
			floats.Scale(weight, value[from:])
		}
		for i, c := range column {
			key = model.AppendFloats(append(key, byte(c)), value[i]) // a column is below MaxUserFeatures
		}
		k, ok := known[string(key)]
		if !ok {
			k = int32(len(t.start) - 1)
			known[string(key)] = k
			t.column, t.value = append(t.column, column...), append(t.value, value...)
			t.start = append(t.start, int32(len(t.column)))
		}
		t.kind = append(t.kind, k)
	}
	t.Sparse = dense.NewSparseRows(t.width, t.kind, t.start, t.column, t.value)
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
	out := *t
	out.kind = model.At(t.kind, items)
	out.Sparse = t.Sparse.With(out.kind)
	return &out
}

// Features lists the columns in which x_j is not zero, ascending, and its values there.
func (t *UserFeatures) Features(j int) (columns []int, values []float64) { return t.ofKind(t.kind[j]) }

func (t *UserFeatures) ofKind(k int32) (columns []int, values []float64) {
	from, to := t.start[k], t.start[k+1]
	columns = t.column[from:to]
	return columns, t.value[from:to][:len(columns)]
}

// Row writes x_j over zeros.
func (t *UserFeatures) Row(j int, dst []float64) {
	columns, values := t.Features(j)
	for i, c := range columns {
		dst[c] = values[i]
	}
}

// Of is <t, x_j>.
func (t *UserFeatures) Of(weights []float64, j int) float64 {
	if t == nil {
		return 0
	}
	return t.product(weights, t.kind[j])
}

func (t *UserFeatures) product(weights []float64, k int32) (x float64) {
	columns, values := t.ofKind(k)
	for i, c := range columns {
		x += weights[c] * values[i]
	}
	return x
}

// products holds <t, x_j> of each kind of item, or weights to multiply with.
type products struct {
	*UserFeatures
	weights []float64
	memory  *[]float64 // of each kind; nil: products are taken one by one
}

var productsPool = sync.Pool{New: func() any { return new([]float64) }}

// products computes the products of kinds once, if that pays for so many items.
func (t *UserFeatures) products(weights []float64, items int) products {
	p := products{UserFeatures: t, weights: weights}
	if items <= t.Kinds() || t == nil {
		return p
	}
	p.memory = productsPool.Get().(*[]float64)
	*p.memory = slices.Grow((*p.memory)[:0], t.Kinds())[:t.Kinds()]
	for k := range *p.memory {
		(*p.memory)[k] = t.product(weights, int32(k))
	}
	return p
}

// of is <t, x_j>.
func (p *products) of(j int32) float64 {
	k := p.kind[j]
	if p.memory != nil {
		return (*p.memory)[k]
	}
	return p.product(p.weights, k)
}

func (p *products) free() {
	if p.memory != nil {
		productsPool.Put(p.memory)
	}
}

// Kinds counts the different sets of features that items have; 0 for nil.
func (t *UserFeatures) Kinds() int {
	if t == nil {
		return 0
	}
	return len(t.start) - 1
}

// Commonest gives columns to the values that most items have, at most limit of them, in the order
// of categories and vocabularies. It returns for each value of each category its column, or -1, and
// for each column its category. A value that only one item has says nothing about others.
func Commonest(f *dataset.ItemFeatures, limit int) (columns [][]int, category []int) {
	type value struct {
		category, value int
		items           float64 // the sum of their weights
	}
	var all []value
	columns = make([][]int, len(f.Categories))
	for c, cat := range f.Categories {
		items, sums := make([]int, len(cat.Values)), make([]float64, len(cat.Values))
		for k, v := range cat.Value {
			items[v]++
			sums[v] += cat.Weight[k]
		}
		columns[c] = slices.Repeat([]int{-1}, len(cat.Values))
		for v, n := range items {
			if n > 1 {
				all = append(all, value{c, v, sums[v]})
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
