//go:build !amd64 || purego

package dense

func addPairs(to, next, rows []float64, step int, f *[8]float64) {
	addPairsOneByOne(to, next, rows, step, f)
}
