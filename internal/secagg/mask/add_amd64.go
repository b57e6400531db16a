//go:build amd64 && !purego

package mask

// rowStride is from one row to the next, as add_amd64.s has it.
const rowStride = blockSize + 5*64

var _ = [1]struct{}{}[rowStride-4416]

// The loops of add_amd64.s go through count vectors of 16 bytes, at least one. They take SSE2, which every amd64 has. A row need not be
// aligned.

//go:noescape
func addFour32Vectors(dst *uint32, rows *byte, count int, extra uint32)

//go:noescape
func addFour64Vectors(dst *uint64, rows *byte, count int, extra uint64)

func addFour32(dst []uint32, r *rows, extra uint32) {
	if dst = dst[:min(len(dst), blockSize/4)]; len(dst)%4 != 0 || len(dst) == 0 {
		addFour32Portable(dst, r, extra)
		return
	}
	addFour32Vectors(&dst[0], &r[0][0], len(dst)/4, extra)
}

func addFour64(dst []uint64, r *rows, extra uint64) {
	if dst = dst[:min(len(dst), blockSize/8)]; len(dst)%2 != 0 || len(dst) == 0 {
		addFour64Portable(dst, r, extra)
		return
	}
	addFour64Vectors(&dst[0], &r[0][0], len(dst)/2, extra)
}
