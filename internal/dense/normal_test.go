package dense

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// plainSolve is SolveUpper by LAPACK's routines.
func plainSolve(a, b []float64, d int) bool {
	t, ok := lapack64.Potrf(Upper(a, d))
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

// Sums of outer products and solutions equal blas64's and lapack64's, bit for bit: for any number
// of rows, and for rows of the sum that are further apart.
func TestNormalEquationsAgainstBLAS(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for n := range 14 {
		for _, width := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 21, 33, 34, 64, 65, 70} {
			for _, more := range []int{0, 1, 3, 5} {
				stride, step := width+more, width+more
				rows, start := randoms(rng, n*step), randoms(rng, stride*stride)
				got, want := slices.Clone(start), slices.Clone(start)
				AddOuter(got, stride, rows, step, width)
				blas64.Syrk(blas.Trans, 1, blas64.General{Rows: n, Cols: width, Stride: step, Data: rows}, 1,
					blas64.Symmetric{Uplo: blas.Upper, N: width, Stride: stride, Data: want})
				if !slices.Equal(got, want) {
					t.Fatalf("%d rows of %d in %d: %v, want %v", n, width, stride, got, want)
				}
			}
		}
	}
}

// Factors and solutions equal lapack64's, bit for bit, with vectors and without, whatever is below the
// diagonal.
func TestSolveUpperAgainstLAPACK(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 2))
	for d := 1; d <= 70; d++ {
		start, right := randoms(rng, d*d), randoms(rng, d)
		AddOuter(start, d, randoms(rng, 2*d*d), d, d)
		for i := range d {
			start[i*d+i] += 5
		}
		want, y := slices.Clone(start), slices.Clone(right)
		if !plainSolve(want, y, d) {
			t.Fatalf("%d unknowns: LAPACK refuses the matrix", d)
		}
		check := func(name string, solve func(a, b []float64, d int) bool, y []float64) {
			a, x := slices.Clone(start), slices.Clone(right)
			if !solve(a, x, d) || !slices.Equal(x, y) {
				t.Fatalf("%d unknowns, %s: %v, want %v", d, name, x, y)
			}
			for i := range d {
				if got, row := a[i*d+i:(i+1)*d], want[i*d+i:(i+1)*d]; !slices.Equal(got, row) {
					t.Fatalf("%d unknowns, %s, row %d of the factor: %v, want %v", d, name, i, got, row)
				}
			}
		}
		check("solved", SolveUpper, y)
		if d <= unblocked {
			z := slices.Clone(right)
			blas64.Trsm(blas.Left, blas.Trans, 1, triangular(want, d), blas64.General{Rows: d, Cols: 1, Stride: 1, Data: z})
			check("factored", factor, z)
			check("factored without vectors", factorOneByOne, z)
		}
	}
	if SolveUpper([]float64{1, 2, 2, 1}, []float64{1, 1}, 2) { // eigenvalues 3 and -1
		t.Error("an indefinite matrix is solved with")
	}
}
