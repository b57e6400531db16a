package noise

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// chunks is a reader that gives 13 bytes at a time, so that words cross its chunks.
type chunks struct{ io.Reader }

func (c chunks) Read(p []byte) (int, error) {
	return c.Reader.Read(p[:min(13, len(p))])
}

// TestBitsWords: the words are the stream's bytes, little endian, in order, whatever the chunks of
// the reader.
func TestBitsWords(t *testing.T) {
	data := make([]byte, 3*bufferSize+24)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	for name, r := range map[string]io.Reader{
		"whole":          bytes.NewReader(data),
		"byte by byte":   iotest.OneByteReader(bytes.NewReader(data)),
		"13 bytes":       chunks{bytes.NewReader(data)},
		"halves":         iotest.HalfReader(bytes.NewReader(data)),
		"data and error": iotest.DataErrReader(bytes.NewReader(data)),
	} {
		b := NewBits(r)
		for i := 0; i < len(data); i += 8 {
			if got, want := b.Uint64(), binary.LittleEndian.Uint64(data[i:]); got != want || b.Err() != nil {
				t.Fatalf("%s: word %d is %#x, %v; want %#x", name, i/8, got, b.Err(), want)
			}
		}
		if got := b.Uint64(); got != 0 || !errors.Is(b.Err(), io.ErrUnexpectedEOF) {
			t.Errorf("%s: at the end %#x, %v; want 0, io.ErrUnexpectedEOF", name, got, b.Err())
		}
	}
}

// TestBitsFailure: whole words before a failure are good, the error is final.
func TestBitsFailure(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		r     io.Reader
		words int
		want  error
		text  string
	}{
		{"20 bytes", strings.NewReader("01234567890123456789"), 2, io.ErrUnexpectedEOF, "random stream failed"},
		{"error after 8", io.MultiReader(strings.NewReader("01234567"), iotest.ErrReader(broken)), 1, broken, "random stream failed: broken"},
		{"error then data", io.MultiReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 99))))), 0, iotest.ErrTimeout, "timeout"},
		{"nil", nil, 0, nil, "random stream is nil"},
	} {
		b := NewBits(c.r)
		for i := range c.words {
			if b.Uint64() == 0 || b.Err() != nil {
				t.Errorf("%s: word %d failed: %v", c.name, i, b.Err())
			}
		}
		for range 3 {
			got, err := b.Uint64(), b.Err()
			if got != 0 || err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: after the failure %#x, %v", c.name, got, err)
			}
		}
	}
}
