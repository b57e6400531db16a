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

//go:noescape
func addOne32Vectors(dst *uint32, row *byte, count int, extra uint32)

//go:noescape
func addOne64Vectors(dst *uint64, row *byte, count int, extra uint64)

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

func addOne32(dst []uint32, row []byte, extra uint32) {
	if n := len(dst) / 4; n > 0 {
		_ = row[16*n-1]
		addOne32Vectors(&dst[0], &row[0], n, extra)
		dst, row = dst[4*n:], row[16*n:]
	}
	addOne32Portable(dst, row, extra)
}

func addOne64(dst []uint64, row []byte, extra uint64) {
	if n := len(dst) / 2; n > 0 {
		_ = row[16*n-1]
		addOne64Vectors(&dst[0], &row[0], n, extra)
		dst, row = dst[2*n:], row[16*n:]
	}
	addOne64Portable(dst, row, extra)
}
