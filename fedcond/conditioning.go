// Package fedcond learns regressions whose features are public and whose labels are private:
// DP-SGD, Cond-DP and Switch-Cond-DP ("Private Learning with Public Feature Conditioning",
// ICML 2026) of a linear model, by one organisation that has all examples.
//
// The three differ in one matrix. [Train] with no conditioning is DP-SGD, with that of
// [Conditioning] Cond-DP, and with a step at which it ends Switch-Cond-DP.
package fedcond

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
)

// floor is the least singular value that is inverted, as a part of the largest. It bounds the
// condition number of C, on which Theorem 4.8 depends.
const floor = 1e-3

// Conditioning is C = VΣ⁻¹Vᵀ of the public features X = UΣVᵀ (key design 1), a symmetric p x p
// matrix. Singular values below a thousandth of the largest count as that much. C is scaled such that max‖Cx_i‖ =
// max‖x_i‖, so that learning rates and clipping thresholds mean the same with and without it.
// It depends on no label and costs no privacy. Features that are all zero, or not finite, are
// an error.
func Conditioning(r *dataset.Regression) (*model.Matrix, error) {
	p := r.Cols
	gram := mat.NewSymDense(p, nil)
	x := features(r.X, r.Rows, p)
	blas64.Syrk(blas.Trans, 1, x, 0, gram.RawSymmetric())
	for _, v := range gram.RawSymmetric().Data {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("fedcond: features are not finite, or too large to square; scale them")
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(gram, true) {
		return nil, fmt.Errorf("fedcond: the spectrum of %d features was not found; scale them to a similar size", p)
	}
	squares := eigen.Values(nil) // ascending
	top := math.Sqrt(squares[p-1])
	if !(top > 0) {
		return nil, errors.New("fedcond: all features are zero; there is nothing to condition")
	}
	var v, c mat.Dense
	eigen.VectorsTo(&v)
	inverse := mat.NewDiagDense(p, nil)
	for i, s := range squares {
		inverse.SetDiag(i, 1/math.Max(math.Sqrt(math.Max(s, 0)), floor*top))
	}
	c.Product(&v, inverse, v.T())
	plain, conditioned := longest(x), longest(times(x, c.RawMatrix()))
	c.Scale(plain/conditioned, &c)
	return model.Wrap(p, p, c.RawMatrix().Data), nil
}

// features views values as rows of features.
func features(values []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: values}
}

// times is x·c.
func times(x, c blas64.General) blas64.General {
	out := features(make([]float64, x.Rows*c.Cols), x.Rows, c.Cols)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x, c, 0, out)
	return out
}

// norms are the lengths of the rows.
func norms(x blas64.General) []float64 {
	out := make([]float64, x.Rows)
	for i := range out {
		out[i] = blas64.Nrm2(blas64.Vector{N: x.Cols, Inc: 1, Data: x.Data[i*x.Stride:]})
	}
	return out
}

// longest is the length of the longest row.
func longest(x blas64.General) float64 {
	var most float64
	for _, n := range norms(x) {
		most = math.Max(most, n)
	}
	return most
}
