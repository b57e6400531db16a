package dense

import (
	"math"

	"gonum.org/v1/gonum/lapack/lapack64"
)

// unblocked is the size up to which LAPACK factors a matrix without blocks, and so the largest that
// is factored here. Larger matrices are left to LAPACK.
const unblocked = 64

// SolveUpper replaces b by a⁻¹b and the upper triangle of a by its Cholesky factor U. Numbers below
// the diagonal have no meaning afterwards. It returns false if a is not positive definite in float64; b then
// has no meaning.
func SolveUpper(a, b []float64, d int) bool {
	if d > unblocked {
		if _, ok := lapack64.Potrf(Upper(a, d)); !ok {
			return false
		}
		for k := range d { // UᵀUx = b: first Uᵀ
			row := a[k*d : (k+1)*d]
			b[k] *= 1 / row[k]
			Axpy(b[k+1:], -b[k], row[k+1:])
		}
	} else if !factor(a, b, d) {
		return false
	}
	for k := d - 1; k >= 0; k-- {
		row, x := a[k*d+k+1:(k+1)*d], b[k]
		for i, y := range b[k+1:][:len(row)] {
			x -= row[i] * y
		}
		b[k] = x * (1 / a[k*d+k])
	}
	return true
}

// panel is the number of rows that are factored before they are subtracted from the rows below.
const panel = 4

// factorOneByOne is factor without vectors. It subtracts four rows at a time from two rows below, as
// [AddOuter] adds them.
func factorOneByOne(a, b []float64, d int) bool {
	var even, odd [unblocked]float64
	for p := 0; p < d; p += panel {
		end := min(p+panel, d)
		if !eliminate(a, b, d, p, end, d, &even, &odd) {
			return false
		}
		if end-p < panel {
			break
		}
		subtract(a, b, d, p, &even, &odd)
	}
	return true
}

// eliminate factors the rows from p to end, in the columns before last.
//
// A squared element of the diagonal is the element of a less one sum, over the rows above. As LAPACK
// on amd64 takes it, that sum has two parts: of the even rows and of the odd ones, the last of an odd
// number with the odd ones.
func eliminate(a, b []float64, d, p, end, last int, even, odd *[unblocked]float64) bool {
	for j := p; j < end; j++ {
		row := a[j*d+j : j*d+last]
		for i := p; i < j; i++ {
			above := a[i*d+j : i*d+last][:len(row)]
			f := above[0]
			if i&1 == 0 && i+1 < j {
				even[j] += f * f
			} else {
				odd[j] += f * f
			}
			for k := 1; k < len(row); k++ {
				row[k] -= f * above[k]
			}
			b[j] -= b[i] * f
		}
		x := row[0] - (odd[j] + even[j])
		if !(x > 0) {
			return false
		}
		x = math.Sqrt(x)
		row[0] = x
		x = 1 / x
		for k := 1; k < len(row); k++ {
			row[k] *= x
		}
		b[j] *= x
	}
	return true
}

// subtract subtracts the four rows from p on from all rows below them.
func subtract(a, b []float64, d, p int, even, odd *[unblocked]float64) {
	x0, x1, x2, x3 := a[p*d:][:d], a[(p+1)*d:][:d], a[(p+2)*d:][:d], a[(p+3)*d:][:d]
	b0, b1, b2, b3 := b[p], b[p+1], b[p+2], b[p+3]
	for j := p + panel; j < d; j += 2 {
		f0, f1, f2, f3 := x0[j], x1[j], x2[j], x3[j]
		even[j] = even[j] + f0*f0 + f2*f2
		odd[j] = odd[j] + f1*f1 + f3*f3
		b[j] = b[j] - b0*f0 - b1*f1 - b2*f2 - b3*f3
		k := j + 1
		if k == d {
			break
		}
		g0, g1, g2, g3 := x0[k], x1[k], x2[k], x3[k]
		even[k] = even[k] + g0*g0 + g2*g2
		odd[k] = odd[k] + g1*g1 + g3*g3
		b[k] = b[k] - b0*g0 - b1*g1 - b2*g2 - b3*g3
		to := a[j*d+k : (j+1)*d]
		to[0] = to[0] - f0*g0 - f1*g1 - f2*g2 - f3*g3
		if to = to[1:]; len(to) > 0 {
			addPairs(to, a[k*d+k+1:], a[p*d+k+1:], d, &[8]float64{-f0, -f1, -f2, -f3, -g0, -g1, -g2, -g3})
		}
	}
}
