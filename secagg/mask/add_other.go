//go:build !amd64 || purego

package mask

func addFour32(dst []uint32, r *rows, extra uint32)   { addFour32Portable(dst, r, extra) }
func addFour64(dst []uint64, r *rows, extra uint64)   { addFour64Portable(dst, r, extra) }
func addOne32(dst []uint32, row []byte, extra uint32) { addOne32Portable(dst, row, extra) }
func addOne64(dst []uint64, row []byte, extra uint64) { addOne64Portable(dst, row, extra) }
