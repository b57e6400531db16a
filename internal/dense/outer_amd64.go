//go:build amd64 && !purego

package dense

// A tile is four rows of a sum of outer products, in eight or four of its columns. It stays in
// registers while all rows of a matrix are added.
type tile [4 * Line8]float64

// outerEight adds the products of four numbers and eight numbers of each row. It takes AVX, and at
// least one row.
//
//go:noescape
func outerEight(sums *tile, x, y *float64, step, count int)

// outerFour is outerEight of four columns.
//
//go:noescape
func outerFour(sums *tile, x, y *float64, step, count int)

// fewestRows is the number of rows from which tiles pay.
const fewestRows = 8

// addOuter is AddOuter in tiles. It returns the rows that it leaves: all if there are few, and the last
// if reading a multiple of four numbers would go beyond it.
func addOuter(a []float64, stride int, rows []float64, step, width int) []float64 {
	n, padded := len(rows)/step, (width+Lane-1)/Lane*Lane
	if padded > step {
		n--
	}
	if !vectors || width < Lane || n < fewestRows {
		return rows
	}
	var sums tile
	for i := 0; i < width; i += Lane {
		last := min(i+Lane, width)
		for c := i; c < width; c += Line8 {
			end := min(c+Line8, width)
			for k := i; k < last; k++ {
				if from := max(c, k); from < end {
					copy(sums[(k-i)*Line8+from-c:], a[k*stride+from:k*stride+end])
				}
			}
			if c+Line8 <= padded {
				outerEight(&sums, &rows[i], &rows[c], step, n)
			} else {
				outerFour(&sums, &rows[i], &rows[c], step, n)
			}
			for k := i; k < last; k++ {
				if from := max(c, k); from < end {
					copy(a[k*stride+from:k*stride+end], sums[(k-i)*Line8+from-c:])
				}
			}
		}
	}
	return rows[n*step:]
}
