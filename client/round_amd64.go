//go:build amd64 && !purego

package client

import (
	"golang.org/x/sys/cpu"

	"github.com/fedsim/fedsim/protocol"
)

// roundFours rounds multiples of four values to nearest, and sets sums to their squares and their
// magnitudes, in four parts. It takes AVX, and at least one factor.
//
//go:noescape
func roundFours(dst *int32, factors *float64, count int, values *float64, scale float64, sums *[2][4]float64)

// roundNarrow rounds to integers that fit 32 bits. Below maxInteger the sums of integers are exact in
// any order; above it, they are taken in the usual order.
func roundNarrow(dst []int32, v protocol.Vector, scale float64, nearest bool) (l2, l1 float64) {
	if n := len(v.Factor); nearest && n > 0 && len(v.Value) == 4 && len(dst) >= 4*n && cpu.X86.HasAVX {
		var sums [2][4]float64
		roundFours(&dst[0], &v.Factor[0], n, &v.Value[0], scale, &sums)
		l2, l1 = sums[0][0]+sums[0][1]+sums[0][2]+sums[0][3], sums[1][0]+sums[1][1]+sums[1][2]+sums[1][3]
		if l2 < maxInteger && l1 < maxInteger {
			return l2, l1
		}
	}
	return roundInto(dst, v, scale, nearest)
}
