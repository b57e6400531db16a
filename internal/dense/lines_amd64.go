//go:build amd64 && !purego

package dense

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

func addSquares(a *[Line8 * Line8]float64, lines []float64) {
	if n := len(lines) / Line8; !vectors {
		addSquaresOneByOne(a, lines)
	} else if n > 0 {
		addSquaresVectors(&a[0], &lines[0], n)
	}
}

func pick(dst, lines []float64, at []int32) {
	if !vectors {
		pickOneByOne(dst, lines, at)
		return
	}
	if len(at) > 0 {
		_ = dst[len(at)*Line8-1]
		checkRows(at, len(lines)/Line8)
		pickVectors(&dst[0], &lines[0], &at[0], len(at))
	}
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

func (s *SparseRows) addToSides(sides, lines []float64, step int, at []int32) {
	if !vectors || len(s.entry) == 0 {
		s.addToSidesOneByOne(sides, lines, step, at)
		return
	}
	if len(at) > 0 {
		_, _ = sides[s.width*step-1], lines[len(at)*step-1]
		checkRows(at, len(s.kind))
		addToSidesVectors(&sides[0], &lines[0], step, &at[0], len(at), &s.kind[0], &s.start[0], &s.entry[0], &s.values[0])
	}
}

func (s *SparseRows) addPairs(sums []float64, at []int32) {
	if len(s.pair) == 0 || len(at) == 0 {
		return
	}
	_ = sums[s.Packed()-1]
	checkRows(at, len(s.kind))
	addPairsOfRows(&sums[0], &at[0], len(at), &s.kind[0], &s.pairs[0], &s.pair[0], &s.products[0])
}

func (s *SparseRows) multiply(dst []float64, weights [][Lane]float64, start, extra [Lane]float64, numbers []float64, at []int32) {
	if !vectors || len(s.entry) == 0 {
		s.multiplyOneByOne(dst, weights, start, extra, numbers, at)
		return
	}
	if len(at) > 0 {
		_, _ = dst[len(at)-1], weights[s.width-1]
		checkRows(at, min(len(s.kind), len(numbers)))
		multiplyVectors(&dst[0], &at[0], len(at), &s.kind[0], &s.start[0], &s.entry[0], &s.values[0], &weights[0], &[2][Lane]float64{start, extra}, &numbers[0])
	}
}
