// Package dense has the small dense algebra that clients and servers of sufficient statistics
// share: inner products, symmetric matrices packed as vectors, normal equations of a few dozen
// unknowns, and eigenvalues. It knows no setting and no algorithm.
//
// Each sum is taken in one order, so results are equal to the last bit on every machine.
package dense

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// NotFinite returns the place of the first number that is infinite or none; -1: all are finite.
func NotFinite(x []float64) int {
	return slices.IndexFunc(x, func(y float64) bool { return math.IsNaN(y) || math.IsInf(y, 0) })
}

// Dot returns the inner product, as the sum of four parts: what is left after the last four belongs to
// the first part.
func Dot(x, y []float64) float64 {
	if len(x) > short {
		return floats.Dot(x, y)
	}
	y = y[:len(x)]
	var s0, s1, s2, s3 float64
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		a, b := (*[4]float64)(x), (*[4]float64)(y)
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
	}
	y = y[:len(x)]
	for i, z := range x {
		s0 += z * y[i]
	}
	return (s0 + s2) + (s1 + s3)
}

// Dot4 is [Dot] of four numbers.
func Dot4(x, y *[4]float64) float64 {
	return (float64(x[0]*y[0]) + float64(x[2]*y[2])) + (float64(x[1]*y[1]) + float64(x[3]*y[3]))
}

// short is the length up to which calling an assembly routine takes longer than what it saves.
const short = 16

// Axpy adds a·x to y.
func Axpy(y []float64, a float64, x []float64) { floats.AddScaled(y, a, x) }

// Norm returns the Euclidean norm.
func Norm(x []float64) float64 { return math.Sqrt(Dot(x, x)) }

// Sqr returns x².
func Sqr(x float64) float64 { return x * x }

// Clamp brings x to -bound..bound.
func Clamp(x, bound float64) float64 { return min(max(x, -bound), bound) }

// ClampAll clamps in place.
func ClampAll(x []float64, bound float64) []float64 {
	for j := range x {
		x[j] = Clamp(x[j], bound)
	}
	return x
}

// Scaled returns x times a number.
func Scaled(x []float64, by float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * by
	}
	return out
}

// Upper returns the upper triangle of a row-major d x d matrix.
func Upper(a []float64, d int) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Upper, N: d, Stride: d, Data: a}
}

// General returns a row-major matrix.
func General(a []float64, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: a}
}

// Vector returns x as a blas64.Vector.
func Vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }

// Runner runs f(0), ..., f(n-1), in any order and at once.
type Runner interface{ Each(n int, f func(int)) }

// blockSize is the number of items that a worker takes at a time.
const blockSize = 64

// Blocks runs f over 0..n-1 in blocks.
func Blocks(run Runner, n int, f func(from, to int)) {
	run.Each((n+blockSize-1)/blockSize, func(i int) { f(i*blockSize, min((i+1)*blockSize, n)) })
}

// Normal equations are formed and solved here in the sizes of which clients and servers have
// thousands: a few dozen unknowns, one right-hand side. blas64 calls a vector operation for each
// element at these sizes. Results are equal to blas64's to the last bit, since each sum is taken in
// the same order.

// AddOuter adds Σ x xᵀ over rows x of a matrix n x width, whose rows are step apart, to the upper
// triangle of a matrix whose rows are stride apart. Reads and writes of the triangle take most of the
// time. So vectors take all rows for a tile of the triangle, which stays in registers. The loop takes
// four rows at a time, for two rows of the triangle.
func AddOuter(a []float64, stride int, rows []float64, step, width int) {
	rows = addOuter(a, stride, rows, step, width)
	for ; len(rows) >= 4*step; rows = rows[4*step:] {
		x0, x1, x2, x3 := rows[:width], rows[step:][:width], rows[2*step:][:width], rows[3*step:][:width]
		for i := 0; i < width; i += 2 {
			f0, f1, f2, f3 := x0[i], x1[i], x2[i], x3[i]
			to := a[i*stride+i : i*stride+width]
			to[0] = to[0] + f0*f0 + f1*f1 + f2*f2 + f3*f3
			if to = to[1:]; len(to) == 0 {
				break
			}
			k := i + 1
			addPairs(to, a[k*stride+k:], rows[k:], step, &[8]float64{f0, f1, f2, f3, x0[k], x1[k], x2[k], x3[k]})
		}
	}
	for ; len(rows) >= step; rows = rows[step:] {
		for i, f := range rows[:width] {
			Axpy(a[i*stride+i:i*stride+width], f, rows[i:width])
		}
	}
}

// InvertUpper replaces the factor in the upper triangle of a by the whole inverse of what was factored.
func InvertUpper(a []float64, d int) {
	lapack64.Potri(blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: d, Stride: d, Data: a})
	for i := range d {
		for k := range i {
			a[i*d+k] = a[k*d+i]
		}
	}
}

// A symmetric d x d matrix is packed as svec: its lower triangle row by row, off-diagonals times
// √2. The Euclidean norm of the packed vector is the Frobenius norm of the matrix. So noise of
// deviation σ on every packed coordinate is the noise of the privacy proof; it puts σ/√2 on each
// off-diagonal entry.

// PackOuter sets dst to svec(u uᵀ).
func PackOuter(dst, u []float64) {
	i := 0
	for a, x := range u {
		y := x * math.Sqrt2
		for _, z := range u[:a] {
			dst[i] = y * z
			i++
		}
		dst[i] = x * x
		i++
	}
}

// Unpack sets the row-major d x d matrix dst to scale times the packed one.
func Unpack(dst, packed []float64, d int, scale float64) {
	i := 0
	half := scale / math.Sqrt2
	for a := range d {
		for b := range a {
			x := packed[i] * half
			dst[a*d+b], dst[b*d+a] = x, x
			i++
		}
		dst[a*d+a] = packed[i] * scale
		i++
	}
}

// Pack sets dst to svec of the row-major symmetric matrix a.
func Pack(dst, a []float64, d int) {
	i := 0
	for r := range d {
		for c := range r {
			dst[i] = a[r*d+c] * math.Sqrt2
			i++
		}
		dst[i] = a[r*d+r]
		i++
	}
}

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

// Leading returns the k largest eigenvalues of the row-major symmetric a of m rows, descending and none negative, and their vectors,
// a column each. For m above 4k they are of a Krylov space of 2.5k dimensions (block Lanczos, all blocks kept orthogonal): exact where
// they stand out, and approximate near the bulk of the spectrum. That takes a small part of the time of [Eigen.Decompose].
func Leading(a []float64, m, k int) (values []float64, vectors blas64.General) {
	if m <= 4*k {
		e := NewEigen(m)
		e.Decompose(a)
		return e.leading(k)
	}
	wide := (k + 3) / 4
	n := min(10, m/wide) * wide
	basis, image, w, inner := matrix(m, n), matrix(m, n), matrix(m, wide), matrix(n, wide)
	for i, state := 0, uint64(1); i < len(w.Data); i++ {
		state = state*6364136223846793005 + 1442695040888963407 // Knuth's generator: any start will do
		w.Data[i] = float64(state>>11)/(1<<52) - 1
	}
	tau, work := make([]float64, wide), make([]float64, wide*wide)
	for at := 0; at < n; at += wide {
		for range 2 { // the second pass takes out what rounding left
			if at > 0 {
				known, in := blas64.General{Rows: m, Cols: at, Stride: n, Data: basis.Data}, blas64.General{Rows: at, Cols: wide, Stride: wide, Data: inner.Data}
				blas64.Gemm(blas.Trans, blas.NoTrans, 1, known, w, 0, in)
				blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, known, in, 1, w)
			}
			lapack64.Geqrf(w, tau, work, len(work))
			lapack64.Orgqr(w, tau, work, len(work))
		}
		next := blas64.General{Rows: m, Cols: wide, Stride: n, Data: image.Data[at:]}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, blas64.General{Rows: m, Cols: m, Stride: m, Data: a}, w, 0, next)
		for i := range m {
			copy(basis.Data[i*n+at:][:wide], w.Data[i*wide:])
			copy(w.Data[i*wide:][:wide], next.Data[i*n:])
		}
	}
	ritz, e := matrix(n, n), NewEigen(n)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, basis, image, 0, ritz)
	e.Decompose(ritz.Data)
	values, inside := e.leading(k)
	vectors = matrix(m, k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, basis, inside, 0, vectors)
	return values, vectors
}

// leading takes the k largest eigenvalues, descending, with their vectors.
func (e *Eigen) leading(k int) (values []float64, vectors blas64.General) {
	vectors = matrix(e.d, k)
	for c := range k {
		values = append(values, e.Values[e.d-1-c])
		for i := range e.d {
			vectors.Data[i*k+c] = e.Vectors[i*e.d+e.d-1-c]
		}
	}
	return values, vectors
}

func matrix(rows, columns int) blas64.General {
	return blas64.General{Rows: rows, Cols: columns, Stride: columns, Data: make([]float64, rows*columns)}
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

// addPairs adds multiples of four rows, step apart, to one vector and other multiples to another:
// the first four factors belong to the first vector. Reads and writes take most of the time, so that
// a row that is read serves both.
func addPairs(to, next, rows []float64, step int, f *[8]float64) {
	f0, f1, f2, f3, g0, g1, g2, g3 := f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]
	next = next[:len(to)]
	y0, y1, y2, y3 := rows[:len(to)], rows[step:][:len(to)], rows[2*step:][:len(to)], rows[3*step:][:len(to)]
	for j, sum := range to {
		z0, z1, z2, z3 := y0[j], y1[j], y2[j], y3[j]
		to[j] = sum + f0*z0 + f1*z1 + f2*z2 + f3*z3
		next[j] = next[j] + g0*z0 + g1*z1 + g2*z2 + g3*z3
	}
}
