package mask

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
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
