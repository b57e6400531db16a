package cond

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

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
		slots, n := make([]int32, f.Size), f.Size
		if k < len(c.Public) && !o.whole {
			n = occurring(f, slots)
		} else {
			for v := range slots {
				slots[v] = int32(v)
			}
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

// occurring numbers the values in the examples, and returns their number.
func occurring(f dataset.Field, slots []int32) int {
	for _, v := range f.Values {
		slots[v] = 1
	}
	n := 0
	for v := range slots {
		if slots[v] == 1 {
			slots[v] = int32(n)
			n++
		} else {
			slots[v] = -1
		}
	}
	return n
}

// at returns the table rows of all examples, field by field.
func (m *MLP) at(c *Categorical) [][]int32 {
	out := make([][]int32, m.fields)
	for k, f := range c.fields() {
		out[k] = make([]int32, len(f.Values))
		for i, v := range f.Values {
			out[k][i] = m.slots[k][v]
		}
	}
	return out
}

// Predict returns a prediction for each example. The fields must have the number and the sizes of
// the training fields.
func (m *MLP) Predict(c *Categorical, run protocol.Runner) ([]float64, error) {
	if err := m.check(c); err != nil {
		return nil, err
	}
	at, out := m.at(c), make([]float64, 0, len(c.Y))
	b := newMLPBatch(m)
	var rows []int32
	for from := 0; from < len(c.Y); from += predictAtOnce {
		rows = rows[:0]
		for i := from; i < min(from+predictAtOnce, len(c.Y)); i++ {
			rows = append(rows, int32(i))
		}
		b.forward(at, rows, nil, run)
		out = append(out, b.out...)
	}
	return out, nil
}

const predictAtOnce = 4096
