package attack

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// ridge is a linear fit to standardised features, with an offset.
type ridge struct {
	mean, deviation []float64
	weights         *mat.Dense // features x outputs
	offset          []float64
}

// penalty of squared weights, in rows of deviation 1.
const penalty = 10

// fitRidge fits rows of outputs to rows of features by least squares with a penalty.
func fitRidge(x, y [][]float64) *ridge {
	n, d, outputs := len(x), len(x[0]), len(y[0])
	r := &ridge{mean: make([]float64, d), deviation: make([]float64, d), offset: make([]float64, outputs)}
	for i := range x {
		for k, v := range x[i] {
			r.mean[k] += v / float64(n)
		}
		for k, v := range y[i] {
			r.offset[k] += v / float64(n)
		}
	}
	for i := range x {
		for k, v := range x[i] {
			r.deviation[k] += (v - r.mean[k]) * (v - r.mean[k]) / float64(n)
		}
	}
	for k, v := range r.deviation {
		r.deviation[k] = math.Sqrt(v)
	}
	gram, cross := mat.NewSymDense(d, nil), mat.NewDense(d, outputs, nil)
	for i := range x {
		z := r.standard(x[i])
		gram.SymRankOne(gram, 1, mat.NewVecDense(d, z))
		for a := range z {
			for b, v := range y[i] {
				cross.Set(a, b, cross.At(a, b)+z[a]*(v-r.offset[b]))
			}
		}
	}
	for k := range d {
		gram.SetSym(k, k, gram.At(k, k)+penalty)
	}
	var c mat.Cholesky
	c.Factorize(gram) // positive definite by the penalty
	r.weights = mat.NewDense(d, outputs, nil)
	if err := c.SolveTo(r.weights, cross); err != nil {
		r.weights.Zero() // too ill conditioned to say anything
	}
	return r
}

// standard is a row in deviations from the mean; 0 of what never varies.
func (r *ridge) standard(x []float64) []float64 {
	z := make([]float64, len(x))
	for k, v := range x {
		if r.deviation[k] > 0 {
			z[k] = (v - r.mean[k]) / r.deviation[k]
		}
	}
	return z
}

// predict is the outputs for a row.
func (r *ridge) predict(x []float64) []float64 {
	out := append([]float64(nil), r.offset...)
	for a, z := range r.standard(x) {
		for b := range out {
			out[b] += z * r.weights.At(a, b)
		}
	}
	return out
}
