package encoder

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/protocol"
)

const serial = protocol.Workers(1)

// films have genres (several, weighted), a year (one, equal weights) and a country that no film
// has. Item 0 has nothing at all, and about a quarter of the rest lack each.
func films(items int) *dataset.ItemFeatures {
	rng := rand.New(rand.NewPCG(uint64(items), 5))
	f := &dataset.ItemFeatures{Items: items, Digest: fmt.Sprint("films ", items), Categories: []dataset.Category{
		{Name: "genres", Values: []string{"crime", "drama", "musical", "war", "western"}, Start: []int32{0}},
		{Name: "year", Values: []string{"1994", "1995", "1996"}, Start: []int32{0}},
		{Name: "country", Values: []string{"Utopia"}, Start: make([]int32, items+1)},
	}}
	for j := range items {
		for k := range 2 {
			c := &f.Categories[k]
			if j > 0 && rng.IntN(4) > 0 {
				for _, value := range rng.Perm(len(c.Values))[:1+2*(1-k)*rng.IntN(2)] {
					c.Value, c.Weight = append(c.Value, int32(value)), append(c.Weight, 1+float64(1-k)*rng.Float64())
				}
			}
			c.Start = append(c.Start, int32(len(c.Value)))
		}
	}
	return f
}

// quadratic has the losses ½ vᵀA_j v - b_jᵀv with A_j positive definite.
type quadratic struct {
	a []*mat.SymDense
	b []*mat.VecDense
}

func newQuadratic(items, rank int) quadratic {
	rng := rand.New(rand.NewPCG(uint64(items), uint64(rank)))
	var q quadratic
	for range items {
		a, b := mat.NewSymDense(rank, nil), mat.NewVecDense(rank, nil)
		for range rank + 2 {
			u := mat.NewVecDense(rank, nil)
			for c := range rank {
				u.SetVec(c, rng.NormFloat64())
			}
			a.SymRankOne(a, 1/float64(rank), u)
			b.AddScaledVec(b, rng.NormFloat64(), u)
		}
		q.a, q.b = append(q.a, a), append(q.b, b)
	}
	return q
}

func (q quadratic) Gradient(j int, v, g []float64) float64 {
	x, y := mat.NewVecDense(len(v), v), mat.NewVecDense(len(g), g)
	y.MulVec(q.a[j], x)
	loss := mat.Dot(x, y)/2 - mat.Dot(q.b[j], x)
	y.SubVec(y, q.b[j])
	return loss
}

// reference computes an encoder as the package documentation puts it, with dense
// matrices: one of items x values for each category.
type reference struct {
	e *Encoder
	x []*mat.Dense
}

func newReference(e *Encoder, f *dataset.ItemFeatures) reference {
	r := reference{e: e}
	if f != nil {
		for _, c := range f.Categories {
			x := mat.NewDense(e.items, len(c.Values), nil)
			for j := range e.items {
				row := x.RawRowView(j)
				for p := c.Start[j]; p < c.Start[j+1]; p++ {
					row[c.Value[p]] += c.Weight[p]
				}
				if sum := floats.Sum(row); sum > 0 {
					floats.Scale(1/sum, row)
				}
			}
			r.x = append(r.x, x)
		}
	}
	if f == nil || e.settings.IDs {
		x := mat.NewDense(e.items, e.items, nil)
		for j := range e.items {
			x.Set(j, j, 1)
		}
		r.x = append(r.x, x)
	}
	return r
}

// blocks are the parameter blocks of numbers in the order of θ: one for each category,
// and the dense layer, nil in a linear encoder.
func (r reference) blocks(theta []float64) (embeddings []*mat.Dense, dense *mat.Dense) {
	dim := r.e.settings.Dim
	for _, x := range r.x {
		_, values := x.Dims()
		embeddings = append(embeddings, mat.NewDense(values, dim, theta[:values*dim]))
		theta = theta[values*dim:]
	}
	if r.e.settings.Dense {
		dense = mat.NewDense(len(r.x)*dim, r.e.rank, theta)
	}
	return embeddings, dense
}

// layers are the hidden layer and the embeddings of all items.
func (r reference) layers() (hidden, v *mat.Dense) {
	embeddings, dense := r.blocks(r.e.theta)
	hidden, v = mat.NewDense(r.e.items, r.e.hidden, nil), mat.NewDense(r.e.items, r.e.rank, nil)
	for k, x := range r.x {
		var part mat.Dense
		part.Mul(x, embeddings[k])
		if dense == nil {
			v.Add(v, &part)
		} else {
			hidden.Slice(0, r.e.items, k*r.e.settings.Dim, (k+1)*r.e.settings.Dim).(*mat.Dense).Copy(&part)
		}
	}
	if dense != nil {
		v.Mul(hidden, dense)
	}
	return hidden, v
}

// gradient returns the gradient of the mean loss of the batch and the ridge, in the order of θ, by
// the chain rule on whole matrices, and the loss without the ridge.
func (r reference) gradient(o Objective, batch []int32) ([]float64, float64) {
	hidden, v := r.layers()
	g, loss := mat.NewDense(r.e.items, r.e.rank, nil), 0.0
	for _, j := range batch {
		loss += o.Gradient(int(j), v.RawRowView(int(j)), g.RawRowView(int(j)))
	}
	n := float64(len(batch))
	g.Scale(1/n, g)
	grad := append([]float64(nil), r.e.theta...)
	floats.Scale(r.e.settings.Ridge, grad)
	embeddings, dense := r.blocks(grad)
	_, layer := r.blocks(r.e.theta)
	for k, x := range r.x {
		back := mat.DenseCopyOf(g)
		if dense != nil {
			var whole mat.Dense
			whole.Mul(g, layer.T())
			back = mat.DenseCopyOf(whole.Slice(0, r.e.items, k*r.e.settings.Dim, (k+1)*r.e.settings.Dim))
		}
		var part mat.Dense
		part.Mul(x.T(), back)
		embeddings[k].Add(embeddings[k], &part)
	}
	if dense != nil {
		var part mat.Dense
		part.Mul(hidden.T(), g)
		dense.Add(dense, &part)
	}
	return grad, loss / n
}

// variant is one kind of encoder.
type variant struct {
	name     string
	features bool
	settings Settings
}

func plain() Settings {
	return Settings{StartNorm: 1, Optimiser: SGD, Rate: 0.1, Steps: 1}
}

func variants() []variant {
	var all []variant
	add := func(name string, features bool, change func(*Settings)) {
		s := plain()
		change(&s)
		all = append(all, variant{name, features, s})
	}
	add("linear", true, func(*Settings) {})
	add("linear, ids", true, func(s *Settings) { s.IDs, s.Ridge = true, 0.3 })
	add("dense", true, func(s *Settings) { s.Dense, s.Ridge = true, 0.3 })
	add("dense, ids, narrow", true, func(s *Settings) { s.Dense, s.IDs, s.Dim = true, true, 2 })
	add("dense, wide", true, func(s *Settings) { s.Dense, s.Dim, s.Batch = true, 5, 4 })
	add("linear, ids, batches", true, func(s *Settings) { s.IDs, s.Batch, s.Ridge = true, 4, 0.1 })
	add("only ids", false, func(*Settings) {})
	add("only ids, dense", false, func(s *Settings) { s.Dense, s.Dim = true, 4 })
	return all
}

func (v variant) build(t testing.TB, items, rank int) (*Encoder, *dataset.ItemFeatures) {
	t.Helper()
	var f *dataset.ItemFeatures
	if v.features {
		f = films(items)
	}
	e, err := New(f, items, rank, v.settings, 11)
	if err != nil {
		t.Fatal(err)
	}
	return e, f
}

func furthest(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	return floats.Distance(a, b, math.Inf(1))
}
