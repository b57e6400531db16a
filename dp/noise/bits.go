package noise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// bufferSize is the number of bytes Bits asks its reader for at a time: large
// enough that a block cipher in counter mode runs at full speed.
const bufferSize = 2048

// Bits deals out the words of a random stream, eight bytes at a time and little endian. It reads
// ahead, so nothing else may read from the same stream.
//
// A failing reader must not turn into predictable noise. Bits keeps the first error, and Uint64
// returns zero from then on. Every function of this package that fills a vector returns the error.
// Code that calls Draw methods itself must check Err before it uses the draws.
//
// A Bits belongs to one goroutine.
type Bits struct {
	r         io.Reader
	pos, size int // the unread bytes are buf[pos:size]
	err       error
	buf       [bufferSize]byte
}

// NewBits returns the words of r. A nil r is a stream that fails at once.
func NewBits(r io.Reader) *Bits {
	return &Bits{r: r}
}

// Uint64 returns the next word, or zero once the stream has failed.
func (b *Bits) Uint64() uint64 {
	if b.size-b.pos < 8 && !b.fill() {
		return 0
	}
	v := binary.LittleEndian.Uint64(b.buf[b.pos:])
	b.pos += 8
	return v
}

// Err returns the error that ended the stream, or nil. If the stream merely ended, the error wraps
// io.ErrUnexpectedEOF: noise never ends by itself.
func (b *Bits) Err() error {
	return b.err
}

// fill makes at least one whole word available and reports whether it could.
func (b *Bits) fill() bool {
	if b.err != nil {
		return false
	}
	if b.r == nil {
		b.err = errors.New("noise: random stream is nil; give NewBits a reader")
		return false
	}
	left := copy(b.buf[:], b.buf[b.pos:b.size])
	n, err := io.ReadAtLeast(b.r, b.buf[left:], 8-left)
	b.pos, b.size = 0, left+n
	if err == nil {
		return true
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	b.err = fmt.Errorf("noise: random stream failed: %w", err)
	return false
}
