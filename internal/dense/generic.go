//go:build !amd64 || purego

package dense

// factor replaces the upper triangle of a by its factor U, and b by U⁻ᵀb.
func factor(a, b []float64, d int) bool { return factorOneByOne(a, b, d) }

// AddSquares is as on amd64, one number at a time.
func AddSquares(a *[Line8 * Line8]float64, lines []float64) { addSquaresOneByOne(a, lines) }

// Pick is as on amd64, one number at a time.
func Pick(dst, lines []float64, at []int32) { pickOneByOne(dst, lines, at) }

// AddToSides is as on amd64, one number at a time.
func (s *SparseRows) AddToSides(sides, lines []float64, step int, at []int32) {
	s.addToSidesOneByOne(sides, lines, step, at)
}

// AddPairs is as on amd64, one number at a time.
func (s *SparseRows) AddPairs(sums []float64, at []int32) { s.addPairsOneByOne(sums, at) }

// Multiply is as on amd64, one number at a time.
func (s *SparseRows) Multiply(dst []float64, weights [][Lane]float64, start, extra [Lane]float64, numbers []float64, at []int32) {
	s.multiplyOneByOne(dst, weights, start, extra, numbers, at)
}

// addOuter leaves all rows.
func addOuter(_ []float64, _ int, rows []float64, _, _ int) []float64 { return rows }
