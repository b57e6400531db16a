package fedssp

import (
	"fmt"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/fedsim/fedsim/internal/dense"
)

// plainSolve is solveUpper by LAPACK's routines for it.
func plainSolve(a, b []float64, d int) bool {
	t, ok := lapack64.Potrf(dense.Upper(a, d))
	if ok {
		lapack64.Potrs(t, blas64.General{Rows: d, Cols: 1, Stride: 1, Data: b})
	}
	return ok
}

// A fit equals, to the bit, a fit with rows written out and multiplied whole, with sparse tastes
// and without.
func TestFitAgainstWholeProducts(t *testing.T) {
	for _, kind := range []string{"plain", "full", "implicit", "pooled, with tastes"} {
		p := kinds(60, 5)[kind]
		m := start(p)
		for i := range 30 {
			_, rows := people(&p, 1, float64(i)/30, uint64(i))
			t.Run(fmt.Sprint(kind, "/", i), func(t *testing.T) {
				w := newWorkspace(&p)
				defer w.free()
				w.gather(&p, m, rows[0])
				gram, want := make([]float64, w.width*w.width), make([]float64, w.width)
				if p.Feedback == Implicit {
					dense.Unpack(gram, m.packedGramian(), p.Rank, p.Unobserved)
				}
				blas64.Syrk(blas.Trans, 1, blas64.General{Rows: len(w.value), Cols: w.width, Stride: w.width, Data: w.rows}, 1, dense.Upper(gram, w.width))
				for k, y := range w.value {
					dense.Axpy(want, y-w.offset[k], w.rows[k*w.width:(k+1)*w.width])
				}
				for k := range w.width {
					gram[k*w.width+k] += w.ridge(&p, k)
				}
				if len(w.value) > 0 && !plainSolve(gram, want, w.width) {
					t.Fatal("the fit has no solution")
				}
				w.fit(&p, m)
				if !slices.Equal(w.beta, want) {
					t.Errorf("beta is %v, want %v", w.beta, want)
				}
			})
		}
	}
}
