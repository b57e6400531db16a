package dense

import (
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// Eigen decomposes symmetric matrices.
type Eigen struct {
	d       int
	Vectors []float64 // d x d, a column each, after Decompose
	Values  []float64 // ascending
	work    []float64
}

// NewEigen makes room for matrices of d x d.
func NewEigen(d int) *Eigen {
	e := &Eigen{d: d, Vectors: make([]float64, d*d), Values: make([]float64, d)}
	size := make([]float64, 1)
	lapack64.Syev(lapack.EVCompute, Upper(e.Vectors, d), e.Values, size, -1)
	e.work = make([]float64, int(size[0]))
	return e
}

// Decompose decomposes the row-major symmetric a, with negative eigenvalues, which only noise makes, set
// to zero.
func (e *Eigen) Decompose(a []float64) {
	copy(e.Vectors, a)
	ok := lapack64.Syev(lapack.EVCompute, Upper(e.Vectors, e.d), e.Values, e.work, len(e.work))
	for k, x := range e.Values {
		if !ok || !(x > 0) {
			e.Values[k] = 0
		}
	}
}

// Project replaces the row-major symmetric a by Π(a), the nearest positive semidefinite matrix:
// negative eigenvalues become zero. A noisy sum of u uᵀ has some, and what is solved with
// them is noise blown up. It comes before the ridge, which would only hide the least of them.
func (e *Eigen) Project(a []float64) {
	copy(e.Vectors, a)
	if _, ok := lapack64.Potrf(Upper(e.Vectors, e.d)); ok {
		return // positive definite already, as most are: a factorization is far cheaper
	}
	e.Decompose(a)
	clear(a)
	for k, x := range e.Values {
		for i := range e.d {
			if y := x * e.Vectors[i*e.d+k]; y != 0 {
				for j := range e.d {
					a[i*e.d+j] += y * e.Vectors[j*e.d+k]
				}
			}
		}
	}
}
