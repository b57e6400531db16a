//go:build amd64 && !purego

package kernel

import (
	"golang.org/x/sys/cpu"
)

// turnVectors is turnByFours. It takes AVX, and a rank that is a multiple of four, at least four.
//
//go:noescape
func turnVectors(ui, vj *float64, rank int, value, rate float64) (normU, normV float64)

var vectors = cpu.X86.HasAVX

func turn(ui, vj []float64, value, rate float64) (normU, normV float64) {
	if rank := len(ui); vectors && rank > 0 && rank%4 == 0 {
		return turnVectors(&ui[0], &vj[:rank][0], rank, value, rate)
	}
	return turnByFours(ui, vj, value, rate)
}
