package cond

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/model"
)

// layout counts the weights of each kind, in their order: columns of users' profiles, features of
// items, and the items themselves.
type layout struct{ profile, features, ids int }

func (l layout) len() int { return l.profile + l.features + l.ids }

// mostColumns limits the columns of a profile, or of features of items: decomposing their second
// moments takes time in the cube of the number.
const mostColumns = 1000

// catalogue holds the public features of items, dense: 1, then each value of each category.
type catalogue struct {
	rows    *model.Matrix
	columns []string
}

// newCatalogue spreads the features of a set's items.
func newCatalogue(s *algorithm.Setup) (*catalogue, error) {
	c := &catalogue{columns: []string{"1"}}
	if f := s.Features; f != nil {
		for _, category := range f.Categories {
			for _, v := range category.Values {
				c.columns = append(c.columns, category.Name+"="+v)
			}
		}
	}
	if n := len(c.columns); n > mostColumns {
		return nil, config.Errorf("features: they have %d values, and conditioning takes the spectrum of at most %d; name fewer of them", n, mostColumns)
	}
	c.rows = model.NewMatrix(s.Data.Items, len(c.columns))
	for j := range s.Data.Items {
		row := c.rows.Row(j)
		row[0] = 1
		if s.Features == nil {
			continue
		}
		at := 1
		for k := range s.Features.Categories {
			category := &s.Features.Categories[k]
			values, weights := category.Features(j)
			for n, v := range values {
				row[at+int(v)] = weights[n]
			}
			at += len(category.Values)
		}
	}
	return c, nil
}

// moments holds the data on public features that conditioning needs: second moments over examples,
// and each item's share of the examples. They depend on no label.
type moments struct {
	examples          float64
	profile, features *mat.SymDense
	shares            []float64 // of items
	noise             float64   // about the largest eigenvalue of the noise in the profile's moments
}

// packed returns the length of the upper triangle of a square.
func packed(n int) int { return n * (n + 1) / 2 }

// positive makes a noisy matrix of moments positive semidefinite.
func positive(m *mat.SymDense) error {
	n := m.SymmetricDim()
	var eigen mat.EigenSym
	if !eigen.Factorize(m, true) {
		return fmt.Errorf("cond: the spectrum of %d features was not found; scale them to a similar size", n)
	}
	var v mat.Dense
	eigen.VectorsTo(&v)
	for i, s := range eigen.Values(nil) {
		if s < 0 {
			m.SymRankOne(m, -s, v.ColView(i))
		}
	}
	return nil
}

// momentsOf computes the moments from sums over examples: the number of each item's examples, and Σ
// P_u·P_uᵀ, its upper triangle row by row. Each sum has noise of that deviation.
func momentsOf(l layout, c *catalogue, sums []float64, deviation float64) (moments, error) {
	var m moments
	items := c.rows.Rows()
	m.shares = make([]float64, items)
	for j := range m.shares {
		m.shares[j] = math.Max(0, sums[j]) // noise may make a count negative
		m.examples += m.shares[j]
	}
	if !(m.examples >= 1) {
		return m, fmt.Errorf("cond: the parties counted %.3g examples; there is nothing to learn from", m.examples)
	}
	for j := range m.shares {
		m.shares[j] /= m.examples
	}
	if l.profile > 0 {
		m.noise = 2 * math.Sqrt(float64(l.profile)) * deviation / m.examples // of a symmetric matrix of such entries (Wigner)
		m.profile = mat.NewSymDense(l.profile, nil)
		at := items
		for a := range l.profile {
			for b := a; b < l.profile; b++ {
				m.profile.SetSym(a, b, sums[at]/m.examples)
				at++
			}
		}
		if err := positive(m.profile); err != nil {
			return m, err
		}
	}
	m.features = mat.NewSymDense(l.features, nil)
	for j, share := range m.shares {
		m.features.SymRankOne(m.features, share, mat.NewVecDense(l.features, c.rows.Row(j)))
	}
	return m, nil
}
