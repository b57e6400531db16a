package mask

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"slices"
)

// blockSize is the keystream in bytes that is expanded of one mask before the next
// mask's turn. Four rows, the part of the vector they are added to, and the zeros and
// ones they are made of stay in a first-level cache of 32 KiB.
const blockSize = 4096

// rows is the keystream of up to four masks. Rows are longer than a block, by an
// odd number of cache lines, because equal addresses modulo 4 KiB compete for the
// same places of the cache: without it the sum takes twice as long.
type rows [4][blockSize + 5*64]byte

// zeros and ones are the texts that AES-CTR adds a keystream to, bit by bit, to give it as it is or
// inverted. The inverted keystream is the mask's negative, less 1: -k is the inverse of k, plus 1.
// So a mask is subtracted at no cost.
var (
	zeros [blockSize]byte
	ones  = func() (b [blockSize]byte) {
		for i := range b {
			b[i] = 0xff
		}
		return b
	}()
)

// Term is a mask and its sign in a sum.
type Term struct {
	Stream *Stream
	Sub    bool // subtract it
}

// AddAll adds the masks of terms to dst, or subtracts them. It makes one pass over the
// vector, block by block, with all masks for each block. The error is ErrShape, and dst
// is unchanged, unless every mask is for a vector of the width and length of dst and was
// not wiped ([Stream.Wipe]).
func AddAll(dst *Vector, terms []Term) error {
	return AddRange(dst, terms, 0, dst.Len())
}

// AddRange is [AddAll] for the coordinates from <= j < to. Any partition of the vector
// gives the same result. Parts may be masked concurrently; every mask is opened anew for
// each part, a cost that is negligible for tens of thousands of coordinates. A range
// outside the vector is ErrShape.
func AddRange(dst *Vector, terms []Term, from, to int) error {
	if from < 0 || from > to || to > dst.Len() {
		return fmt.Errorf("mask: %w: coordinates %d to %d of a vector of %d", ErrShape, from, to, dst.Len())
	}
	for i, t := range terms {
		if t.Stream == nil {
			return fmt.Errorf("mask: %w: term %d of %d has no mask", ErrShape, i+1, len(terms))
		}
		if s := t.Stream.spec; s.Width != dst.width || s.Len != dst.Len() {
			return fmt.Errorf("mask: %w: term %d of %d is a mask of %d coordinates of %d bits (vector %q), the vector has %d of %d bits",
				ErrShape, i+1, len(terms), s.Len, s.Width, s.Name, dst.Len(), dst.width)
		}
	}
	x := expansion{streams: make([]keystream, len(terms))}
	defer clear(x.rows[:])
	for i, t := range terms {
		ctr, err := t.Stream.open(from, dst.wordSize())
		if err != nil {
			return err
		}
		x.streams[i] = keystream{ctr, zeros[:]}
		if t.Sub {
			x.streams[i].onto = ones[:]
			x.inverted++
		}
	}
	// The first block ends where a block of the whole vector would, so that all
	// later ones begin at the start of an AES block.
	words := blockSize / dst.wordSize()
	for from < to {
		n := min(words-from%words, to-from)
		if dst.isNarrow() {
			x.add32(dst.narrow[from : from+n])
		} else {
			x.add64(dst.wide[from : from+n])
		}
		from += n
	}
	return nil
}

// wordSize returns the bytes of keystream that a coordinate takes.
func (v *Vector) wordSize() int {
	if v.isNarrow() {
		return 4
	}
	return 8
}

// open returns the keystream from word number from on.
func (s *Stream) open(from, wordSize int) (cipher.Stream, error) {
	block, err := aes.NewCipher(s.key[:])
	if err != nil {
		return nil, fmt.Errorf("mask: vector %q: %w", s.spec.Name, err)
	}
	offset := uint64(from) * uint64(wordSize)
	var counter, skipped [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[8:], offset/aes.BlockSize)
	ctr := cipher.NewCTR(block, counter[:])
	ctr.XORKeyStream(skipped[:offset%aes.BlockSize], zeros[:offset%aes.BlockSize])
	clear(skipped[:])
	return ctr, nil
}

// keystream is a mask under expansion.
type keystream struct {
	ctr  cipher.Stream
	onto []byte // zeros, or ones to invert it
}

// next fills row with the next bytes.
func (k keystream) next(row []byte) {
	k.ctr.XORKeyStream(row, k.onto[:len(row)])
}

// expansion goes through several keystreams side by side.
type expansion struct {
	streams  []keystream
	inverted uint32 // how many streams are, and so what to add to every sum
	rows     rows
}

// next fills the rows with size bytes of the first streams, four or else one, and
// returns the streams that are left.
func (x *expansion) next(streams []keystream, size int) []keystream {
	n := 1
	if len(streams) >= len(x.rows) {
		n = len(x.rows)
	}
	for i, s := range streams[:n] {
		s.next(x.rows[i][:size])
	}
	return streams[n:]
}

// add32 adds the next words of all streams to dst, at most a block.
func (x *expansion) add32(dst []uint32) {
	extra := x.inverted
	for s := x.streams; len(s) > 0; extra = 0 {
		four := len(s) >= len(x.rows)
		s = x.next(s, 4*len(dst))
		if four {
			addFour32(dst, &x.rows, extra)
		} else {
			addOne32(dst, x.rows[0][:4*len(dst)], extra)
		}
	}
}

// add64 is add32 for wide words.
func (x *expansion) add64(dst []uint64) {
	extra := uint64(x.inverted)
	for s := x.streams; len(s) > 0; extra = 0 {
		four := len(s) >= len(x.rows)
		s = x.next(s, 8*len(dst))
		if four {
			addFour64(dst, &x.rows, extra)
		} else {
			addOne64(dst, x.rows[0][:8*len(dst)], extra)
		}
	}
}

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
