package dense

import "gonum.org/v1/gonum/lapack/lapack64"

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
	lapack64.Potri(triangular(a, d))
	for i := range d {
		for k := range i {
			a[i*d+k] = a[k*d+i]
		}
	}
}
