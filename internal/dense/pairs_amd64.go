//go:build amd64 && !purego

package dense

import "golang.org/x/sys/cpu"

// addPairsVectors is the loop of addPairs. It takes AVX.
//
//go:noescape
func addPairsVectors(to, next, rows *float64, step, count int, f *[8]float64)

var vectors = cpu.X86.HasAVX

// fewest is the length from which a call takes less time than the loop.
const fewest = 6

func addPairs(to, next, rows []float64, step int, f *[8]float64) {
	if !vectors || len(to) < fewest {
		addPairsOneByOne(to, next, rows, step, f)
		return
	}
	_, _ = next[len(to)-1], rows[3*step+len(to)-1]
	addPairsVectors(&to[0], &next[0], &rows[0], step, len(to), f)
}
