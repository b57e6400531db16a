package dense

import "math"

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
