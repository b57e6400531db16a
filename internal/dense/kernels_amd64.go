//go:build amd64 && !purego

package dense

import "golang.org/x/sys/cpu"

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

// The loops over lines. They take AVX.

//go:noescape
func addSquaresVectors(a, lines *float64, count int)

//go:noescape
func pickVectors(dst, lines *float64, at *int32, count int)

//go:noescape
func addToSidesVectors(sides, lines *float64, step int, at *int32, count int, kind, start *int32, entry *uint64, values *float64)

//go:noescape
func addPairsOfRows(sums *float64, at *int32, count int, kind, start *int32, pair *uint64, products *float64)

//go:noescape
func multiplyVectors(dst *float64, at *int32, count int, kind, start *int32, entry *uint64, values *float64, weights *[Lane]float64, parts *[2][Lane]float64, numbers *float64)

// AddSquares adds Σ x xᵀ over lines of eight numbers to the upper triangle of an 8 x 8 matrix, except
// to the last number of its diagonal. The lower triangle is overwritten.
func AddSquares(a *[Line8 * Line8]float64, lines []float64) {
	if n := len(lines) / Line8; !vectors {
		addSquaresOneByOne(a, lines)
	} else if n > 0 {
		addSquaresVectors(&a[0], &lines[0], n)
	}
}

// Pick copies some lines of eight numbers.
func Pick(dst, lines []float64, at []int32) {
	if !vectors || len(at) == 0 {
		pickOneByOne(dst, lines, at)
		return
	}
	_ = dst[len(at)*Line8-1]
	checkRows(at, len(lines)/Line8)
	pickVectors(&dst[0], &lines[0], &at[0], len(at))
}

// checkRows panics if a row is not one of n rows, as reading it does in Go.
func checkRows(at []int32, n int) {
	last := uint32(0)
	for _, j := range at {
		last = max(last, uint32(j))
	}
	if int64(last) >= int64(n) {
		panic("dense: a row is beyond the last")
	}
}

// AddToSides adds each line times each number of its sparse row to the number's side. at names
// the sparse row of each line. A side is a line for each column.
func (s *SparseRows) AddToSides(sides, lines []float64, step int, at []int32) {
	if !vectors || len(s.entry) == 0 || len(at) == 0 {
		s.addToSidesOneByOne(sides, lines, step, at)
		return
	}
	_, _ = sides[s.width*step-1], lines[len(at)*step-1]
	checkRows(at, len(s.kind))
	addToSidesVectors(&sides[0], &lines[0], step, &at[0], len(at), &s.kind[0], &s.start[0], &s.entry[0], &s.values[0])
}

// AddPairs adds the products of the numbers of each sparse row with each other to a packed upper
// triangle.
func (s *SparseRows) AddPairs(sums []float64, at []int32) {
	if !vectors || len(s.pair) == 0 || len(at) == 0 {
		s.addPairsOneByOne(sums, at)
		return
	}
	_ = sums[s.Packed()-1]
	checkRows(at, len(s.kind))
	addPairsOfRows(&sums[0], &at[0], len(at), &s.kind[0], &s.pairs[0], &s.pair[0], &s.products[0])
}

// Multiply writes the inner product of weights and each sparse row, as the sum of four parts: weights
// has the weight of each column in the part that it belongs to, and zeros. Parts begin as start,
// and with extra times a number of the row.
func (s *SparseRows) Multiply(dst []float64, weights [][Lane]float64, start, extra [Lane]float64, numbers []float64, at []int32) {
	if !vectors || len(s.entry) == 0 || len(at) == 0 {
		s.multiplyOneByOne(dst, weights, start, extra, numbers, at)
		return
	}
	_, _ = dst[len(at)-1], weights[s.width-1]
	checkRows(at, min(len(s.kind), len(numbers)))
	multiplyVectors(&dst[0], &at[0], len(at), &s.kind[0], &s.start[0], &s.entry[0], &s.values[0], &weights[0], &[2][Lane]float64{start, extra}, &numbers[0])
}

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

var vectors = cpu.X86.HasAVX
