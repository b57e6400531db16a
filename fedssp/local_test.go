package fedssp

import (
	"fmt"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/user"
)

// plainSolve is solveUpper by LAPACK's routines for it.
func plainSolve(a, b []float64, d int) bool {
	t, ok := lapack64.Potrf(dense.Upper(a, d))
	if ok {
		lapack64.Potrs(t, blas64.General{Rows: d, Cols: 1, Stride: 1, Data: b})
	}
	return ok
}

// inFours is the inner product as the sum of four parts, whatever the processor.
func inFours(x, y []float64) float64 {
	var sums [4]float64
	for i := range x {
		part := 0
		if i < len(x)&^3 {
			part = i % 4
		}
		sums[part] += x[i] * y[i]
	}
	return sums[0] + sums[2] + (sums[1] + sums[3])
}

// A fit equals, to the bit, a fit with rows written out and multiplied whole, with sparse tastes
// and without.
func TestFitAgainstWholeProducts(t *testing.T) {
	for _, kind := range []string{"plain", "full", "implicit", "pooled, with tastes"} {
		p := kinds(60, 5)[kind]
		m := openedModel(t, &p, start(p))
		for i := range 30 {
			_, rows := people(&p, 1, float64(i)/30, uint64(i))
			t.Run(fmt.Sprint(kind, "/", i), func(t *testing.T) {
				w := user.NewWorkspace(&p)
				defer w.Free()
				w.Gather(&p, m, rows[0])
				w.Spread()
				gram, want := make([]float64, w.Width*w.Width), make([]float64, w.Width)
				if p.Feedback == kernel.Implicit {
					dense.Unpack(gram, m.Gramian, p.Rank, p.Unobserved)
				}
				blas64.Syrk(blas.Trans, 1, blas64.General{Rows: len(w.Value), Cols: w.Width, Stride: w.Width, Data: w.Rows}, 1, dense.Upper(gram, w.Width))
				for k, y := range w.Value {
					dense.Axpy(want, y-w.Offset[k], w.Rows[k*w.Width:(k+1)*w.Width])
				}
				tastes := w.TasteRidge(&p, gram, want)
				for k := range w.Width {
					ridge := w.Ridge(&p, k)
					if k >= w.Width-p.UserFeatures.Width() {
						ridge = tastes
					}
					gram[k*w.Width+k] += ridge
				}
				if len(w.Value) > 0 && !plainSolve(gram, want, w.Width) {
					t.Fatal("the fit has no solution")
				}
				w.Fit(&p, m)
				if !slices.Equal(w.Beta, want) {
					t.Errorf("beta is %v, want %v", w.Beta, want)
				}
				for k := range w.Value {
					row := w.Rows[k*w.Width : (k+1)*w.Width]
					if got, want := w.Own(k, p.Rank), inFours(w.Beta[p.Rank:], row[p.Rank:]); got != want {
						t.Errorf("the user's own part of rating %d is %v, want %v", k, got, want)
					}
				}
			})
		}
	}
}
