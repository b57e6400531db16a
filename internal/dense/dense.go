// Package dense has the small dense algebra that clients and servers of sufficient statistics
// share: inner products, symmetric matrices packed as vectors, normal equations of a few dozen
// unknowns, and eigenvalues. It knows no setting and no algorithm.
//
// Each sum is taken in one order, so results are equal to the last bit on every machine.
package dense

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

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

// triangular returns the upper triangle as a factor.
func triangular(a []float64, d int) blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: d, Stride: d, Data: a}
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
