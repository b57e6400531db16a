package mask

import "encoding/binary"

// The loops below are where the time goes that AES does not take. They are written
// so that the compiler drops the bounds checks from every turn. On amd64 the same loops go through
// vectors of 16 bytes (add_amd64.s), and these take what is left over.

func addFour32Portable(dst []uint32, r *rows, extra uint32) {
	le := binary.LittleEndian
	_ = r[0][0] // r is not nil: checked once
	for i := range min(len(dst), blockSize/4) {
		dst[i] += extra + le.Uint32(r[0][4*i:]) + le.Uint32(r[1][4*i:]) + le.Uint32(r[2][4*i:]) + le.Uint32(r[3][4*i:])
	}
}

func addFour64Portable(dst []uint64, r *rows, extra uint64) {
	le := binary.LittleEndian
	_ = r[0][0]
	for i := range min(len(dst), blockSize/8) {
		dst[i] += extra + le.Uint64(r[0][8*i:]) + le.Uint64(r[1][8*i:]) + le.Uint64(r[2][8*i:]) + le.Uint64(r[3][8*i:])
	}
}

func addOne32Portable(dst []uint32, row []byte, extra uint32) {
	le := binary.LittleEndian
	for len(dst) >= 8 && len(row) >= 32 {
		d, k := (*[8]uint32)(dst), (*[32]byte)(row)
		d[0] += extra + le.Uint32(k[0:])
		d[1] += extra + le.Uint32(k[4:])
		d[2] += extra + le.Uint32(k[8:])
		d[3] += extra + le.Uint32(k[12:])
		d[4] += extra + le.Uint32(k[16:])
		d[5] += extra + le.Uint32(k[20:])
		d[6] += extra + le.Uint32(k[24:])
		d[7] += extra + le.Uint32(k[28:])
		dst, row = dst[8:], row[32:]
	}
	for i := range dst {
		dst[i] += extra + le.Uint32(row[4*i:])
	}
}

func addOne64Portable(dst []uint64, row []byte, extra uint64) {
	le := binary.LittleEndian
	for len(dst) >= 4 && len(row) >= 32 {
		d, k := (*[4]uint64)(dst), (*[32]byte)(row)
		d[0] += extra + le.Uint64(k[0:])
		d[1] += extra + le.Uint64(k[8:])
		d[2] += extra + le.Uint64(k[16:])
		d[3] += extra + le.Uint64(k[24:])
		dst, row = dst[4:], row[32:]
	}
	for i := range dst {
		dst[i] += extra + le.Uint64(row[8*i:])
	}
}
