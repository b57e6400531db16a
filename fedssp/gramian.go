package fedssp

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// solveOne is solve where every A_j is a multiple of one Gramian G: G is decomposed once, in its
// eigenbasis all systems are diagonal, and what is left is to turn b into it and v back.
func (y *system) solveOne(v []float64, run protocol.Runner) {
	d := y.p.Rank
	e := dense.NewEigen(d)
	e.Decompose(y.gramian)
	q := dense.Square(e.Vectors, d)
	dense.Blocks(run, y.p.Items, func(from, to int) {
		part := func(x []float64) blas64.General {
			return blas64.General{Rows: to - from, Cols: d, Stride: d, Data: x[from*d : to*d]}
		}
		turned := make([]float64, (to-from)*d)
		t := blas64.General{Rows: to - from, Cols: d, Stride: d, Data: turned}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, part(y.b), q, 0, t)
		var at []float64
		if y.p.Solver == Convex {
			at = make([]float64, len(turned))
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, part(y.at), q, 0, blas64.General{Rows: to - from, Cols: d, Stride: d, Data: at})
		}
		for j := from; j < to; j++ {
			row := turned[(j-from)*d : (j-from+1)*d]
			for k, x := range e.Values {
				a := y.share[j] * x
				if at != nil {
					row[k] = a*at[(j-from)*d+k] - row[k]
				}
				weight := 1.0
				if y.rho > 0 {
					weight = a / (a + y.rho)
				}
				row[k] *= weight / (weight*a + y.ridge(j))
			}
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, t, q, 0, part(v))
	})
}
