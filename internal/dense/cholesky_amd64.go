//go:build amd64 && !purego

package dense

// fewestUnknowns is the number of unknowns from which vectors pay.
const fewestUnknowns = 8

// eliminated holds, for each column, the squares of the rows above in two sums, and the right side.
type eliminated struct{ even, odd, right [unblocked]float64 }

// above holds what four rows of a panel need of each other: the inverses of their diagonal, the six
// numbers above the diagonal by rows, and the right side.
type above [4 + 6 + 4]float64

// panelVectors takes four rows in groups of four columns to the right of the panel. It takes AVX.
//
//go:noescape
func panelVectors(rows *float64, stride, groups int, by *above, even, odd, right *float64)

// subtractVectors subtracts four rows from the count rows below them. The first group of columns
// begins at the diagonal of the first of these rows. It takes AVX.
//
//go:noescape
func subtractVectors(rows *float64, stride, count, groups int)

// factor replaces the upper triangle of a by its factor U, and b by U⁻ᵀb.
//
// Vectors begin at every fourth column and may go beyond a row's end. So they change numbers below the
// diagonal, and numbers of the diagonal, which are set aside. The last row has its diagonal alone, so
// that no vector goes beyond the matrix.
func factor(a, b []float64, d int) bool {
	if !vectors || d < fewestUnknowns {
		return factorOneByOne(a, b, d)
	}
	var sums eliminated
	var diagonal [unblocked]float64
	copy(sums.right[:], b[:d])
	beyond := -d & (Lane - 1)
	for j := range d {
		diagonal[j] = a[j*d+j]
		clear(a[j*d:][:min(beyond, j)]) // lest it shrinks to slow numbers, solved for again and again
	}
	for p := 0; p < d; p += panel {
		end := min(p+panel, d)
		for j := p; j < end; j++ {
			a[j*d+j] = diagonal[j]
		}
		if !eliminate(a, sums.right[:d], d, p, end, end, &sums.even, &sums.odd) {
			return false
		}
		if end == d {
			break
		}
		x0, x1, x2, x3 := a[p*d+p:][:panel], a[(p+1)*d+p:][:panel], a[(p+2)*d+p:][:panel], a[(p+3)*d+p:][:panel]
		by := above{1 / x0[0], 1 / x1[1], 1 / x2[2], 1 / x3[3], x0[1], x0[2], x0[3], x1[2], x1[3], x2[3]}
		copy(by[4+6:], sums.right[p:end])
		groups, second, third := (d-end+Lane-1)/Lane, x1[1], x2[2]
		panelVectors(&a[p*d+end], d, groups, &by, &sums.even[end], &sums.odd[end], &sums.right[end])
		if p == 0 { // the ends of the first rows are the beginnings of the next
			a[d+1], a[d+2], a[2*d+2] = second, by[7], third
		}
		subtractVectors(&a[p*d+end], d, d-1-end, groups)
	}
	copy(b[:d], sums.right[:])
	return true
}
