//go:build !amd64 || purego

package client

import "github.com/fedsim/fedsim/protocol"

// roundNarrow rounds to integers that fit 32 bits.
func roundNarrow(dst []int32, v protocol.Vector, scale float64, nearest bool) (l2, l1 float64) {
	return roundInto(dst, v, scale, nearest)
}
