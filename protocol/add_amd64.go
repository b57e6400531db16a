//go:build amd64 && !purego

package protocol

import "golang.org/x/sys/cpu"

// addFours adds blocks of four integers to the blocks of a sum. It stops at an index beyond the last
// of blocks, and returns how many it added. It takes AVX2, and at least one block.
//
//go:noescape
func addFours(sum *int64, blocks uint64, index *uint32, values *int32, count int) (done int)

// addNarrow adds blocks of integers at their indices.
func addNarrow(sum []int64, index []uint32, block int, values []int32) {
	if n := len(index); block == 4 && n > 0 && len(sum) >= 4 && len(values) >= 4*n && cpu.X86.HasAVX2 {
		done := addFours(&sum[0], uint64(len(sum)/4), &index[0], &values[0], n)
		index, values = index[done:], values[4*done:] // none are left, unless one is out of range
	}
	addBlocks(sum, index, block, values)
}
