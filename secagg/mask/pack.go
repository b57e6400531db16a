package mask

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// PackedSize returns the bytes of a packed vector, ⌈width·length/8⌉.
func PackedSize(width uint8, length int) int {
	return int((uint64(width)*uint64(length) + 7) / 8)
}

// AppendPacked appends the packed vector to dst, [PackedSize] bytes; the package
// comment has the format.
func (v *Vector) AppendPacked(dst []byte) []byte {
	size := PackedSize(v.width, v.Len())
	dst = slices.Grow(dst, size)[:len(dst)+size]
	if out := dst[len(dst)-size:]; v.isNarrow() {
		pack(out, v.narrow, v.width)
	} else {
		pack(out, v.wide, v.width)
	}
	return dst
}

// Unpack replaces the vector by the vector that src packs. It returns ErrPacked, and leaves the
// vector as before, unless src has exactly the size for this width and length and the bits left
// over in its last byte are zero.
func (v *Vector) Unpack(src []byte) error {
	if err := v.checkPacked(src); err != nil {
		return err
	}
	clear(v.narrow)
	clear(v.wide)
	v.addPacked(src)
	return nil
}

// AddPacked adds the vector that src packs, without a second vector to hold it. It returns the
// errors of Unpack.
func (v *Vector) AddPacked(src []byte) error {
	if err := v.checkPacked(src); err != nil {
		return err
	}
	v.addPacked(src)
	return nil
}

func (v *Vector) checkPacked(src []byte) error {
	size := PackedSize(v.width, v.Len())
	if len(src) != size {
		return fmt.Errorf("mask: %w: %d bytes; %d coordinates of %d bits have %d", ErrPacked, len(src), v.Len(), v.width, size)
	}
	used := uint64(v.width) * uint64(v.Len()) % 8 // bits of the last byte; 0: all
	if used != 0 && src[size-1]>>used != 0 {
		return fmt.Errorf("mask: %w: the %d bits left over in the last byte are not zero", ErrPacked, 8-used)
	}
	return nil
}

// addPacked adds src, which has been checked.
func (v *Vector) addPacked(src []byte) {
	if v.isNarrow() {
		done, at := addPairs(v.narrow, src, v.width)
		addRest(v.narrow[done:], src, v.width, at)
	} else {
		addRest(v.wide, src, v.width, 0)
	}
}

// word is the type that holds a residue.
type word interface{ uint32 | uint64 }

// pack writes the low width bits of every word to dst, which has PackedSize bytes.
func pack[W word](dst []byte, src []W, width uint8) {
	keep := ^uint64(0) >> (64 - width)
	var acc uint64 // the next bits of dst, fill < 64 of them
	var fill uint8
	for _, w := range src {
		x := uint64(w) & keep
		acc |= x << (fill & 63)
		fill += width
		if fill >= 64 {
			binary.LittleEndian.PutUint64(dst, acc)
			dst = dst[8:]
			fill -= 64
			acc = x >> (width - fill) // what did not fit; none where all did
		}
	}
	for i := range dst {
		dst[i] = byte(acc)
		acc >>= 8
	}
}

// windowSize is the number of bytes that 64 bits may lie across. The functions below read so many
// at once, at the byte where the due bits begin.
const windowSize = 9

// addPairs is addWindows for two words at a time, whose bits fit one window, from
// the beginning of src.
func addPairs(dst []uint32, src []byte, width uint8) (int, uint64) {
	var at uint64
	keep := ^uint32(0) >> (32 - width)
	for i := 0; i+1 < len(dst); i += 2 {
		first, shift := at/8, at%8
		if first+windowSize > uint64(len(src)) {
			return i, at
		}
		window := (*[windowSize]byte)(src[first:])
		x := binary.LittleEndian.Uint64(window[:]) >> shift
		x |= uint64(window[8]) << 1 << (63 - shift) // nothing where shift is 0
		dst[i] += uint32(x) & keep
		dst[i+1] += uint32(x>>(width&63)) & keep
		at += 2 * uint64(width)
	}
	return len(dst) &^ 1, at
}

// addWindows adds to every word the width bits of src that are due, beginning with
// bit number at, as long as there is a whole window to read them from. It returns
// how many words it did and where the bits of the next one begin.
func addWindows[W word](dst []W, src []byte, width uint8, at uint64) (int, uint64) {
	keep := W(^uint64(0) >> (64 - width))
	for i := range dst {
		first, shift := at/8, at%8
		if first+windowSize > uint64(len(src)) {
			return i, at
		}
		window := (*[windowSize]byte)(src[first:])
		x := binary.LittleEndian.Uint64(window[:]) >> shift
		x |= uint64(window[8]) << 1 << (63 - shift) // nothing where shift is 0
		dst[i] += W(x) & keep
		at += uint64(width)
	}
	return len(dst), at
}

// addRest adds to every word its width bits of src, beginning with bit number at,
// where src may end before the last window does.
func addRest[W word](dst []W, src []byte, width uint8, at uint64) {
	done, at := addWindows(dst, src, width, at)
	// Fewer than nine bytes are left: add zeros to continue.
	var tail [2 * windowSize]byte
	copy(tail[:], src[at/8:])
	addWindows(dst[done:], tail[:], width, at%8)
}
