//go:build !amd64 || purego

package dense

func addSquares(a *[Line8 * Line8]float64, lines []float64) { addSquaresOneByOne(a, lines) }

func pick(dst, lines []float64, at []int32) { pickOneByOne(dst, lines, at) }

func (s *SparseRows) addToSides(sides, lines []float64, step int, at []int32) {
	s.addToSidesOneByOne(sides, lines, step, at)
}

func (s *SparseRows) addPairs(sums []float64, at []int32) { s.addPairsOneByOne(sums, at) }

func (s *SparseRows) multiply(dst []float64, weights [][Lane]float64, start, extra [Lane]float64, numbers []float64, at []int32) {
	s.multiplyOneByOne(dst, weights, start, extra, numbers, at)
}
