package fedssp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// plainSolve is solveUpper by LAPACK's routines for it.
func plainSolve(a, b []float64, d int) bool {
	t, ok := lapack64.Potrf(upper(a, d))
	if ok {
		lapack64.Potrs(t, blas64.General{Rows: d, Cols: 1, Stride: 1, Data: b})
	}
	return ok
}

func randoms(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		if x[i] = rng.NormFloat64(); rng.IntN(5) == 0 {
			x[i] = 0
		}
	}
	return x
}

// Sums of outer products and solutions are those of blas64 and lapack64, bit for bit: of any number of
// rows, and of rows of which only the beginning counts.
func TestNormalEquationsAgainstBLAS(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for n := range 14 {
		for _, width := range []int{1, 2, 3, 7, 33, 70} {
			for _, stride := range []int{width, width + 5} {
				rows, start := randoms(rng, n*stride), randoms(rng, stride*stride)
				got, want := slices.Clone(start), slices.Clone(start)
				addOuter(got, rows, width, stride)
				blas64.Syrk(blas.Trans, 1, blas64.General{Rows: n, Cols: width, Stride: stride, Data: rows}, 1,
					blas64.Symmetric{Uplo: blas.Upper, N: width, Stride: stride, Data: want})
				if !slices.Equal(got, want) {
					t.Fatalf("%d rows of %d in %d: %v, want %v", n, width, stride, got, want)
				}
				a := make([]float64, width*width)
				addOuter(a, randoms(rng, width*width), width, width)
				for i := range width {
					a[i*width+i] += 0.1
				}
				x := randoms(rng, width)
				b, y := slices.Clone(a), slices.Clone(x)
				if !solveUpper(a, x, width) || !plainSolve(b, y, width) || !slices.Equal(x, y) {
					t.Fatalf("%d unknowns: %v, want %v", width, x, y)
				}
			}
		}
	}
	if solveUpper([]float64{1, 2, 2, 1}, []float64{1, 1}, 2) { // eigenvalues 3 and -1
		t.Error("an indefinite matrix is solved with")
	}
}

// A fit is the same to the bit as with rows written out and multiplied whole, with tastes,
// of which items have a few, and without.
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
					unpack(gram, m.packedGramian(), p.Rank, p.Unobserved)
				}
				blas64.Syrk(blas.Trans, 1, blas64.General{Rows: len(w.value), Cols: w.width, Stride: w.width, Data: w.rows}, 1, upper(gram, w.width))
				for k, y := range w.value {
					axpy(want, y-w.offset[k], w.rows[k*w.width:(k+1)*w.width])
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
