package mask

import (
	"bytes"
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
	ones  = [blockSize]byte(bytes.Repeat([]byte{0xff}, blockSize))
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
			add(&x, dst.narrow[from:from+n], 4*n, addFour32)
		} else {
			add(&x, dst.wide[from:from+n], 8*n, addFour64)
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

// expansion goes through several keystreams side by side.
type expansion struct {
	streams  []keystream
	inverted uint32 // how many streams are, and so what to add to every sum
	rows     rows
}

// add adds the next size bytes of all streams to dst, at most a block, four streams at a time.
// Rows that have no stream are zeros.
func add[W word](x *expansion, dst []W, size int, four func(dst []W, r *rows, extra W)) {
	extra := W(x.inverted)
	for s := x.streams; len(s) > 0; extra = 0 {
		n := min(len(s), len(x.rows))
		for i := range x.rows {
			if row := x.rows[i][:size]; i < n {
				s[i].ctr.XORKeyStream(row, s[i].onto[:size])
			} else {
				clear(row)
			}
		}
		four(dst, &x.rows, extra)
		s = s[n:]
	}
}

// PackedSize returns the bytes of a packed vector, ⌈width·length/8⌉.
func PackedSize(width uint8, length int) int {
	return int((uint64(width)*uint64(length) + 7) / 8)
}

// CheckPacked returns ErrPacked unless src has exactly the size of a packed vector, and the bits left over in its last byte are zero.
func CheckPacked(width uint8, length int, src []byte) error {
	size := PackedSize(width, length)
	if len(src) != size {
		return fmt.Errorf("mask: %w: %d bytes; %d coordinates of %d bits have %d", ErrPacked, len(src), length, width, size)
	}
	used := uint64(width) * uint64(length) % 8 // bits of the last byte; 0: all
	if used != 0 && src[size-1]>>used != 0 {
		return fmt.Errorf("mask: %w: the %d bits left over in the last byte are not zero", ErrPacked, 8-used)
	}
	return nil
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

// AddPacked adds the vector that src packs, without a second vector to hold it. It returns ErrPacked,
// and leaves the vector as before, unless src has exactly the size for this width and length and the
// bits left over in its last byte are zero.
func (v *Vector) AddPacked(src []byte) error {
	if err := CheckPacked(v.width, v.Len(), src); err != nil {
		return err
	}
	if v.isNarrow() {
		addBits(v.narrow, src, v.width)
	} else {
		addBits(v.wide, src, v.width)
	}
	return nil
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

// windowSize is the number of bytes that 64 bits may lie across.
const windowSize = 9

// addBits adds to every word its width bits of src. It reads a window at once, at the byte where the
// bits of a word begin, and zeros beyond the end of src.
func addBits[W word](dst []W, src []byte, width uint8) {
	keep := W(^uint64(0) >> (64 - width))
	var at uint64
	for i := range dst {
		window, shift := src[at/8:], at%8
		if len(window) < windowSize {
			window = append(make([]byte, 0, windowSize), window...)[:windowSize]
		}
		x := binary.LittleEndian.Uint64(window) >> shift
		x |= uint64(window[8]) << 1 << (63 - shift) // nothing where shift is 0
		dst[i] += W(x) & keep
		at += uint64(width)
	}
}
