package internal_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/fedsim/fedsim/internal/dense"
)

// plainSolve is SolveUpper by LAPACK's routines.
func plainSolve(a, b []float64, d int) bool {
	t, ok := lapack64.Potrf(dense.Upper(a, d))
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
				dense.AddOuter(got, stride, rows, step, width)
				blas64.Syrk(blas.Trans, 1, blas64.General{Rows: n, Cols: width, Stride: step, Data: rows}, 1,
					blas64.Symmetric{Uplo: blas.Upper, N: width, Stride: stride, Data: want})
				if !slices.Equal(got, want) {
					t.Fatalf("%d rows of %d in %d: %v, want %v", n, width, stride, got, want)
				}
			}
		}
	}
}

// Factors and solutions equal lapack64's, bit for bit, whatever is below the diagonal.
func TestSolveUpperAgainstLAPACK(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 2))
	for d := 1; d <= 70; d++ {
		start, right := randoms(rng, d*d), randoms(rng, d)
		dense.AddOuter(start, d, randoms(rng, 2*d*d), d, d)
		for i := range d {
			start[i*d+i] += 5
		}
		want, y := slices.Clone(start), slices.Clone(right)
		if !plainSolve(want, y, d) {
			t.Fatalf("%d unknowns: LAPACK refuses the matrix", d)
		}
		a, x := slices.Clone(start), slices.Clone(right)
		if !dense.SolveUpper(a, x, d) || !slices.Equal(x, y) {
			t.Fatalf("%d unknowns: %v, want %v", d, x, y)
		}
		for i := range d {
			if got, row := a[i*d+i:(i+1)*d], want[i*d+i:(i+1)*d]; !slices.Equal(got, row) {
				t.Fatalf("%d unknowns, row %d of the factor: %v, want %v", d, i, got, row)
			}
		}
	}
	if dense.SolveUpper([]float64{1, 2, 2, 1}, []float64{1, 1}, 2) { // eigenvalues 3 and -1
		t.Error("an indefinite matrix is solved with")
	}
}

// The oracle is the construction: eigenvectors are the discrete cosine transform. Five eigenvalues stand out of a bulk from -10 to 10.
func TestLeading(t *testing.T) {
	const m, k = 90, 5
	vector := func(c, i int) float64 {
		if c == 0 {
			return math.Sqrt(1. / m)
		}
		return math.Sqrt(2./m) * math.Cos(math.Pi*float64(c)*(float64(i)+0.5)/m)
	}
	value := func(c int) float64 {
		if c%9 == 4 && c < 9*k {
			return 100 - float64(c)
		}
		return 10 * math.Sin(float64(c))
	}
	a := make([]float64, m*m)
	for i := range m {
		for j := range m {
			for c := range m {
				a[i*m+j] += value(c) * vector(c, i) * vector(c, j)
			}
		}
	}
	values, vectors := dense.Leading(a, m, k)
	for n, x := range values {
		c, dot := 9*n+4, 0.
		for i := range m {
			dot += vectors.Data[i*vectors.Stride+n] * vector(c, i)
		}
		if math.Abs(x-value(c)) > 1e-6 || math.Abs(math.Abs(dot)-1) > 1e-6 {
			t.Errorf("eigenvalue %d is %v, want %v; its vector has %v of the true one", n, x, value(c), dot)
		}
	}
	all, _ := dense.Leading(a, m, m) // all, without approximation
	if len(all) != m || math.Abs(all[k-1]-value(9*k-5)) > 1e-9 || all[m-1] != 0 {
		t.Errorf("of all %d eigenvalues number %d is %v, and the least %v", len(all), k, all[k-1], all[m-1])
	}
}
