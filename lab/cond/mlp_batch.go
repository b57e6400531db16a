package cond

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// mlpBatch computes on several examples at once. It computes common parts once: the first layer's part of an embedding for each
// value that occurs, and the gradient of an embedding from the sum of the errors that reach it.
type mlpBatch struct {
	m          *MLP
	fields     []fieldBatch
	n          int
	a1, a2     []float64 // activations, n x hidden
	e1, e2     []float64 // the output's derivatives before the ReLU, then times a factor each
	out        []float64 // predictions
	embeddings []float64 // squared length of the inputs of the first layer
	factors    []float64 // s_i
	pool       sync.Pool // of chunks x fields·width
}

// fieldBatch is a field's part of a batch, for the u values that occur in it.
type fieldBatch struct {
	local  []int32   // by example: index of its value, -1: none
	slots  []int32   // by value: the table's row
	seen   []int32   // by row of the table: its place in slots, plus 1, while a batch is read; else 0
	scale  []float64 // by value: conditioning
	rows   []float64 // u x width: embeddings, conditioned
	square []float64 // squared lengths of rows
	first  []float64 // u x hidden[0]: w1 times them
	errors []float64 // u x hidden[0]: sums of e1
	moved  []float64 // u x width: gradients of rows
}

// batchChunk is the number of examples computed together: few enough for the processor's cache.
const batchChunk = 128

func newMLPBatch(m *MLP) *mlpBatch {
	b := &mlpBatch{m: m, fields: make([]fieldBatch, m.fields)}
	for f := range b.fields {
		b.fields[f].seen = make([]int32, m.rows[f])
	}
	b.pool.New = func() any {
		v := make([]float64, batchChunk*m.fields*m.width)
		return &v
	}
	return b
}

// sized returns v with n values, whose content is arbitrary.
func sized[T any](v []T, n int) []T { return slices.Grow(v[:0], n)[:n] }

// chunks runs f on ranges of the examples.
func (b *mlpBatch) chunks(run protocol.Runner, f func(from, to int)) {
	run.Each((b.n+batchChunk-1)/batchChunk, func(k int) { f(k*batchChunk, min((k+1)*batchChunk, b.n)) })
}

// forward leaves activations and predictions of rows in b. at holds the table rows of all examples by field. scale is the
// conditioning of table rows by field, nil: none. The result does not depend on run.
func (b *mlpBatch) forward(at [][]int32, rows []int32, scale [][]float64, run protocol.Runner) {
	m := b.m
	b.n = len(rows)
	b.a1, b.a2 = sized(b.a1, b.n*m.hidden[0]), sized(b.a2, b.n*m.hidden[1])
	b.out, b.embeddings = sized(b.out, b.n), sized(b.embeddings, b.n)
	run.Each(m.fields, func(f int) {
		var s []float64
		if f < len(scale) {
			s = scale[f]
		}
		b.fields[f].read(m, f, at[f], rows, s)
	})
	b.chunks(run, b.activate)
}

// read finds the values of a field that occur, and their products with w1.
func (x *fieldBatch) read(m *MLP, field int, at, rows []int32, scale []float64) {
	x.local, x.slots = sized(x.local, len(rows)), x.slots[:0]
	for i, row := range rows {
		slot := at[row]
		if slot < 0 {
			x.local[i] = -1
			continue
		}
		if x.seen[slot] == 0 {
			x.slots = append(x.slots, slot)
			x.seen[slot] = int32(len(x.slots))
		}
		x.local[i] = x.seen[slot] - 1
	}
	u := len(x.slots)
	x.scale, x.square = sized(x.scale, u), sized(x.square, u)
	x.rows, x.first = sized(x.rows, u*m.width), sized(x.first, u*m.hidden[0])
	for k, slot := range x.slots {
		x.seen[slot] = 0
		x.scale[k] = 1
		if scale != nil {
			x.scale[k] = scale[slot]
		}
		row := floats.ScaleTo(x.rows[k*m.width:(k+1)*m.width], x.scale[k], m.row(m.theta, field, int(slot)))
		x.square[k] = model.Dot(row, row)
	}
	if u > 0 {
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, dense.General(x.rows, u, m.width), m.firstOf(m.theta, field), 0, dense.General(x.first, u, m.hidden[0]))
	}
}

// activate computes the layers of some examples.
func (b *mlpBatch) activate(from, to int) {
	m := b.m
	h1, h2 := m.hidden[0], m.hidden[1]
	bias1, bias2, last := m.theta[m.b1:m.w2], m.theta[m.b2:m.w3], m.theta[m.w3:m.w3+h2+1]
	for i := from; i < to; i++ {
		a := b.a1[i*h1 : (i+1)*h1]
		copy(a, bias1)
		b.embeddings[i] = 0
		for f := range b.fields {
			x := &b.fields[f]
			if k := int(x.local[i]); k >= 0 {
				blas64.Axpy(1, dense.Vector(x.first[k*h1:(k+1)*h1]), dense.Vector(a))
				b.embeddings[i] += x.square[k]
			}
		}
		rectify(a)
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, dense.General(b.a1[from*h1:to*h1], to-from, h1), m.second(m.theta), 0, dense.General(b.a2[from*h2:to*h2], to-from, h2))
	for i := from; i < to; i++ {
		a := b.a2[i*h2 : (i+1)*h2]
		floats.Add(a, bias2)
		rectify(a)
		b.out[i] = model.Dot(a, last[:h2]) + last[h2]
	}
}

func rectify(a []float64) {
	for j, v := range a {
		a[j] = max(v, 0)
	}
}

// gradient leaves in g the sum over the batch of the square loss's gradient by all parameters, with each example's gradient
// clipped. It follows forward with the same arguments; y holds the labels of all examples.
//
// There is one output, so the gradient of the loss is 2(ŷ - y) times ∇ŷ. The length of ∇ŷ is known without ∇ŷ (ghost norms). For a
// layer's weights it is the product of the lengths of its errors and its inputs. An embedding's gradient is the error that reaches
// it times its conditioning. One factor for each example then clips, and the sums are one product for each layer.
//
// Sensitivity: an example adds s·∇ŷ with |s|·‖∇ŷ‖ <= clip over all parameters, for any label and fields (parameters are finite and
// bounded: see [mlpRun.step]). Leaving an example out changes the sum by at most clip. Replacing an example changes it by at most
// 2·clip, up to the rounding of float64.
func (b *mlpBatch) gradient(g []float64, rows []int32, y []float64, clip float64, run protocol.Runner) {
	m := b.m
	b.e1, b.e2, b.factors = sized(b.e1, b.n*m.hidden[0]), sized(b.e2, b.n*m.hidden[1]), sized(b.factors, b.n)
	b.chunks(run, func(from, to int) { b.back(rows, y, clip, from, to) })
	clear(g)
	run.Each(m.fields+1, func(f int) {
		if f < m.fields {
			b.gradientOfField(g, f)
		} else {
			b.gradientOfHead(g)
		}
	})
}

// back computes errors and factors of some examples.
func (b *mlpBatch) back(rows []int32, y []float64, clip float64, from, to int) {
	m := b.m
	h1, h2, wide := m.hidden[0], m.hidden[1], m.fields*m.width
	last := m.theta[m.w3 : m.w3+h2]
	for i := from; i < to; i++ {
		e := b.e2[i*h2 : (i+1)*h2]
		for j, a := range b.a2[i*h2 : (i+1)*h2] {
			e[j] = 0
			if a > 0 {
				e[j] = last[j]
			}
		}
	}
	e1, e2 := dense.General(b.e1[from*h1:to*h1], to-from, h1), dense.General(b.e2[from*h2:to*h2], to-from, h2)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, e2, m.second(m.theta), 0, e1)
	for k, a := range b.a1[from*h1 : to*h1] {
		if !(a > 0) {
			e1.Data[k] = 0
		}
	}
	scratch := b.pool.Get().(*[]float64)
	defer b.pool.Put(scratch)
	e0 := dense.General(*scratch, to-from, wide)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, e1, m.first(m.theta), 0, e0)
	for i := from; i < to; i++ {
		x, z := b.e1[i*h1:(i+1)*h1], b.e2[i*h2:(i+1)*h2]
		a1, a2 := b.a1[i*h1:(i+1)*h1], b.a2[i*h2:(i+1)*h2]
		square := 1 + model.Dot(a2, a2) + model.Dot(z, z)*(1+model.Dot(a1, a1)) + model.Dot(x, x)*(1+b.embeddings[i])
		square += b.squareOfEmbeddings(i, e0.Data[(i-from)*wide:(i-from+1)*wide])
		s := clipped(2*(b.out[i]-y[rows[i]]), math.Sqrt(square), clip)
		b.factors[i] = s
		blas64.Scal(s, dense.Vector(x))
		blas64.Scal(s, dense.Vector(z))
	}
}

// squareOfEmbeddings returns the squared length of the gradient by the embeddings of an example; no two embeddings share a row.
func (b *mlpBatch) squareOfEmbeddings(i int, e0 []float64) (sum float64) {
	d := b.m.width
	for f := range b.fields {
		x := &b.fields[f]
		if k := x.local[i]; k >= 0 {
			e := e0[f*d : (f+1)*d]
			sum += x.scale[k] * x.scale[k] * model.Dot(e, e)
		}
	}
	return sum
}

// gradientOfField adds up w1's columns and the table of a field. It adds examples in their order, for any runner.
func (b *mlpBatch) gradientOfField(g []float64, field int) {
	m, x := b.m, &b.fields[field]
	u, h1 := len(x.slots), m.hidden[0]
	if u == 0 {
		return
	}
	x.errors, x.moved = sized(x.errors, u*h1), sized(x.moved, u*m.width)
	clear(x.errors)
	for i, k := range x.local {
		if k >= 0 {
			blas64.Axpy(1, dense.Vector(b.e1[i*h1:(i+1)*h1]), dense.Vector(x.errors[int(k)*h1:(int(k)+1)*h1]))
		}
	}
	sums, moved := dense.General(x.errors, u, h1), dense.General(x.moved, u, m.width)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, sums, dense.General(x.rows, u, m.width), 0, m.firstOf(g, field))
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, sums, m.firstOf(m.theta, field), 0, moved)
	for k, slot := range x.slots {
		floats.ScaleTo(m.row(g, field, int(slot)), x.scale[k], x.moved[k*m.width:(k+1)*m.width])
	}
}

// gradientOfHead adds up the other layers.
func (b *mlpBatch) gradientOfHead(g []float64) {
	m := b.m
	h1, h2 := m.hidden[0], m.hidden[1]
	if b.n == 0 {
		return
	}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, dense.General(b.e2, b.n, h2), dense.General(b.a1, b.n, h1), 0, m.second(g))
	blas64.Gemv(blas.Trans, 1, dense.General(b.a2, b.n, h2), dense.Vector(b.factors), 0, dense.Vector(g[m.w3:m.w3+h2]))
	for i, s := range b.factors {
		blas64.Axpy(1, dense.Vector(b.e1[i*h1:(i+1)*h1]), dense.Vector(g[m.b1:m.w2]))
		blas64.Axpy(1, dense.Vector(b.e2[i*h2:(i+1)*h2]), dense.Vector(g[m.b2:m.w3]))
		g[m.w3+h2] += s
	}
}

// MLP is a model ŷ = f_ω(Θ_pub x_pub, Θ_priv x_priv): an embedding of each field's value, and over all of them two hidden layers of ReLU and one
// linear output.
type MLP struct {
	mlpShape
	theta []float64
	// slots holds the rows of the values in the embedding tables; -1 for a public value in no
	// example. Its embedding is zero and is not trained: the set of values that occur is public.
	slots [][]int32
}

// mlpShape gives the places of parameters in one vector: w1 (hidden[0] x fields·width), b1, w2, b2,
// w3, b3, then each field's table.
type mlpShape struct {
	fields, width  int
	hidden         [2]int
	rows           []int // of each table
	b1, w2, b2, w3 int   // their starts; b3 follows w3
	tables         []int // their starts; the last is the end of all
}

func newMLPShape(width int, hidden [2]int, rows []int) mlpShape {
	s := mlpShape{fields: len(rows), width: width, hidden: hidden, rows: rows}
	s.b1 = hidden[0] * s.fields * width
	s.w2 = s.b1 + hidden[0]
	s.b2 = s.w2 + hidden[1]*hidden[0]
	s.w3 = s.b2 + hidden[1]
	at := s.w3 + hidden[1] + 1
	for _, n := range rows {
		s.tables = append(s.tables, at)
		at += n * width
	}
	s.tables = append(s.tables, at)
	return s
}

func (s *mlpShape) len() int { return s.tables[s.fields] }

// first returns all of w1 in parameters, or in a gradient of them.
func (s *mlpShape) first(v []float64) blas64.General {
	return dense.General(v[:s.b1], s.hidden[0], s.fields*s.width)
}

// firstOf returns the columns of w1 that a field's embedding meets.
func (s *mlpShape) firstOf(v []float64, field int) blas64.General {
	return blas64.General{Rows: s.hidden[0], Cols: s.width, Stride: s.fields * s.width, Data: v[field*s.width : s.b1]}
}

func (s *mlpShape) second(v []float64) blas64.General {
	return dense.General(v[s.w2:s.b2], s.hidden[1], s.hidden[0])
}

// row returns an embedding.
func (s *mlpShape) row(v []float64, field, slot int) []float64 {
	at := s.tables[field] + slot*s.width
	return v[at : at+s.width]
}

// newMLP returns the start: embeddings N(0, spread²), weights of the layers N(0, 2/inputs) (He et
// al. 2015), and biases of zero. The head does not use the spread of embeddings: with 0.01
// throughout, outputs of three layers and gradients are about 1e-6, and nothing is learned.
func newMLP(c *Categorical, o MLPOptions) *MLP {
	m := &MLP{}
	var rows []int
	for k, f := range c.fields() {
		slots, n := model.Indices(f.Size), f.Size
		if k < len(c.Public) && !o.whole {
			slots, n = occurring(f)
		}
		m.slots, rows = append(m.slots, slots), append(rows, n)
	}
	m.mlpShape = newMLPShape(o.Width, o.Hidden, rows)
	m.theta = make([]float64, m.len())
	random := entropy.Public(o.Seed, "fedcond/mlp")
	fill := func(v []float64, deviation float64) {
		for i := range v {
			v[i] = deviation * random.NormFloat64()
		}
	}
	fill(m.theta[:m.b1], math.Sqrt(2/float64(m.fields*m.width)))
	fill(m.theta[m.w2:m.b2], math.Sqrt(2/float64(m.hidden[0])))
	fill(m.theta[m.w3:m.w3+m.hidden[1]], math.Sqrt(2/float64(m.hidden[1])))
	fill(m.theta[m.tables[0]:], o.Spread)
	return m
}

// occurring numbers the values in the examples, from 0 to n-1; -1 of other values.
func occurring(f dataset.Field) (slots []int32, n int) {
	slots = slices.Repeat([]int32{-1}, f.Size)
	for _, v := range f.Values {
		slots[v] = 0
	}
	for v, slot := range slots {
		if slot == 0 {
			slots[v] = int32(n)
			n++
		}
	}
	return slots, n
}

// at returns the table rows of all examples, field by field.
func (m *MLP) at(c *Categorical) [][]int32 {
	out := make([][]int32, m.fields)
	for k, f := range c.fields() {
		out[k] = model.At(m.slots[k], f.Values)
	}
	return out
}

// Predict returns a prediction for each example. The fields must have the number and the sizes of the training fields.
func (m *MLP) Predict(c *Categorical, run protocol.Runner) []float64 {
	at, out := m.at(c), make([]float64, 0, len(c.Y))
	b := newMLPBatch(m)
	for rows := range slices.Chunk(model.Indices(len(c.Y)), predictAtOnce) {
		b.forward(at, rows, nil, run)
		out = append(out, b.out...)
	}
	return out
}

const predictAtOnce = 4096
