//go:build !amd64 || purego

package mask

func addFour32(dst []uint32, r *rows, extra uint32) { addFour32Portable(dst, r, extra) }
func addFour64(dst []uint64, r *rows, extra uint64) { addFour64Portable(dst, r, extra) }
