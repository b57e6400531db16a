package ease

import (
	"math"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
)

// mostDirections limits the columns of the model.
const mostDirections = 256

// ridgeOfUsers is the ridge in deviations of a sum over few users: it is this times √trace, beside the
// ridge for the noise.
const ridgeOfUsers = 0.25

// vectorsOf returns the model of a sum of pairs, a row for each chosen item. With G the cleaned Gram
// matrix and r the ridge, EASE needs P = (G + rI)⁻¹. In G's eigenvectors u and eigenvalues l,
//
//	rP = I - Σ l/(l+r) uuᵀ = I - EEᵀ
//
// where column k of E is √(l/(l+r))·u. Only eigenvalues above zero give a column. Where more do than the model has columns, the
// others become their mean s. Then P is (I - EEᵀ)/(s+r), and column k is √((l-s)/(l+r))·u. Weights are ratios in P, without its factor.
//
// The noise of the sum is symmetric with deviation sigma in each entry. Users are a sample besides: pairs
// of users at the bound K vary by about K·√(2n)/M in each entry, where n·K√2 is the trace. Half of that
// variance counts. Eigenvalues of noise fill a semicircle up to edge = 2√M times the deviation. An eigenvalue
// λ <= edge may be noise and becomes 0. A larger eigenvalue was raised, and becomes √(λ² - edge²).
func (p *params) vectorsOf(packed []float64) *model.Matrix {
	m := p.top
	g := make([]float64, m*m)
	trace, at := 0., 0
	for i := range m {
		trace += packed[at]
		for j := i; j < m; j++ {
			g[i*m+j], g[j*m+i] = packed[at], packed[at]
			at++
		}
	}
	edge := 2 * p.sigma * math.Sqrt(float64(m))
	if p.sigma > 0 {
		edge = math.Hypot(edge, 2*math.Sqrt(p.norm*max(0, trace)/math.Sqrt2/float64(m)))
	}
	ridge := math.Hypot(p.ridge*edge, ridgeOfUsers*math.Sqrt(max(1, trace)))
	e := dense.NewEigen(m)
	e.Decompose(g)
	out := model.NewMatrix(m, p.columns())
	rest, left := 0., m-p.columns()
	for k, l := range e.Values {
		if e.Values[k] = 0; l > edge {
			e.Values[k] = math.Sqrt(l*l - edge*edge)
		}
		if k < left {
			rest += e.Values[k] / float64(left)
		}
	}
	for c := range p.columns() {
		k := m - 1 - c
		l := e.Values[k]
		if !(l > rest) {
			break
		}
		for i := range m {
			out.Row(i)[c] = math.Sqrt((l-rest)/(l+ridge)) * e.Vectors[i*m+k]
		}
	}
	return out
}

// columns is the width of the model.
func (p *params) columns() int { return min(max(1, p.top), mostDirections) }
