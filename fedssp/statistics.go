package fedssp

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// A symmetric d x d matrix is packed as svec: its lower triangle row by row, off-diagonals times
// √2. The Euclidean norm of the packed vector is the Frobenius norm of the matrix, so that noise of
// deviation σ on every packed coordinate is what the privacy proof asks for; it puts σ/√2 on
// each off-diagonal entry.

// packOuter sets dst to svec(u uᵀ).
func packOuter(dst, u []float64) {
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

// unpack sets the row-major d x d matrix dst to scale times the packed one.
func unpack(dst, packed []float64, d int, scale float64) {
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

// pack sets dst to svec of the row-major symmetric matrix a.
func pack(dst, a []float64, d int) {
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

// dot is the inner product.
func dot(x, y []float64) float64 { return floats.Dot(x, y) }

// axpy adds a·x to y.
func axpy(y []float64, a float64, x []float64) { floats.AddScaled(y, a, x) }

func clampTo(x, bound float64) float64 { return min(max(x, -bound), bound) }
