//go:build !amd64 || purego

package protocol

// addNarrow adds blocks of integers at their indices.
func addNarrow(sum []int64, index []uint32, block int, values []int32) {
	addBlocks(sum, index, block, values)
}
