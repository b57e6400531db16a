package protocol_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/fedsim/fedsim/internal/protocol/codec"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// frame is the header of a frame, by hand, and what comes behind it.
func frame(code byte, left uint32, chunk []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{code}, left), chunk...)
}

// long is a final message of three frames, and these, by hand.
func long() (*protocol.Final, []byte) {
	m := &protocol.Final{Model: fill(600000, 0)}
	b := append([]byte{0x0a, 0xc0, 0xcf, 0x24}, m.Model...) // 600000 = 0x24<<14 + 0x4f<<7 + 0x40
	const most = 262144
	var out []byte
	for left := len(b); left > 0; left = len(b) {
		n := min(left, most)
		out = append(out, frame(17, uint32(left), b[:n])...)
		b = b[n:]
	}
	return m, out
}

func longLimits() wire.Limits {
	l := goldenLimits()
	l.Bytes[protocol.KindFinal] = 600004
	return l
}

func TestFrames(t *testing.T) {
	m, want := long()
	if len(want) != 600004+3*5 || protocol.Size(m) != len(want) {
		t.Fatalf("%d bytes by hand, the message says %d; want %d", len(want), protocol.Size(m), 600004+3*5)
	}
	if got, err := wire.AppendFrames(nil, m); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the frames differ from those by hand: %d bytes, %v", len(got), err)
	}
	stream := slices.Concat(want, want)
	for name, src := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
		"end with the data": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		r := wire.NewReader(src, longLimits())
		for i := range 2 {
			if got, err := r.Read(); err != nil || !bytes.Equal(got.(*protocol.Final).Model, m.Model) {
				t.Fatalf("%s: message %d is not what was sent: %v", name, i, err)
			}
		}
		for range 2 {
			if _, err := r.Read(); err != io.EOF {
				t.Errorf("%s: %v at the end, want EOF", name, err)
			}
		}
	}
}

// A message that is refused leaves the frames before it as they are.
func TestAppendFramesRefuses(t *testing.T) {
	m, want := long()
	b, err := wire.AppendFrames(nil, m)
	if err != nil || !bytes.Equal(b, want) {
		t.Fatalf("%d bytes, %v; want %d", len(b), err, len(want))
	}
	if _, err = wire.AppendFrames(b, &protocol.Final{}); !errors.Is(err, codec.ErrValue) || !bytes.Equal(b, want) {
		t.Errorf("a message that is refused: %v", err)
	}
}

// A stream that ends anywhere but between messages is cut off.
func TestTruncated(t *testing.T) {
	for _, c := range readGolden(t).Good {
		b := unhex(t, c.Frame)
		for n := 1; n < len(b); n++ {
			if m, err := wire.NewReader(bytes.NewReader(b[:n]), goldenLimits()).Read(); m != nil || !errors.Is(err, wire.ErrTruncated) {
				t.Fatalf("%s, %d bytes of %d: %v, %v; want ErrTruncated", c.Title, n, len(b), m, err)
			}
		}
	}
	_, b := long()
	const second = 5 + 262144 // where the second frame begins
	for _, n := range []int{second - 1, second, second + 1, second + 4, second + 5, 2 * second, len(b) - 1} {
		if m, err := wire.NewReader(bytes.NewReader(b[:n]), longLimits()).Read(); m != nil || !errors.Is(err, wire.ErrTruncated) {
			t.Errorf("%d bytes of three frames: %v, %v; want ErrTruncated", n, m, err)
		}
	}
}

// A stream that is out of step is given up: the same error again, whatever follows.
func TestReaderRefuses(t *testing.T) {
	good := unhex(t, readGolden(t).Good[0].Frame)
	chunk := make([]byte, 262144)
	few := longLimits()
	few.Bytes[protocol.KindOpen], few.Bytes[protocol.KindFinal] = 0, 600003
	for _, c := range []struct {
		name   string
		limits wire.Limits
		stream []byte
		want   error
	}{
		{"kind 0", longLimits(), frame(0, 3, nil), wire.ErrKind},
		{"a kind too many", longLimits(), frame(byte(protocol.Kinds)+1, 3, nil), wire.ErrKind},
		{"kind 255", longLimits(), frame(255, 3, nil), wire.ErrKind},
		{"a kind that is not taken", few, good, wire.ErrKind},
		{"no limits", wire.Limits{}, good, wire.ErrKind},
		{"no bytes", longLimits(), frame(17, 0, nil), wire.ErrEmpty},
		{"a byte too many", few, frame(17, 600004, nil), codec.ErrLimit},
		{"4 GiB", longLimits(), frame(17, 0xffffffff, nil), codec.ErrLimit},
		{"another kind goes on", longLimits(), slices.Concat(frame(17, 300000, chunk), frame(16, 300000-262144, chunk)), wire.ErrFrame},
		{"a frame again", longLimits(), slices.Concat(frame(17, 300000, chunk), frame(17, 300000, chunk)), wire.ErrFrame},
		{"a byte less left", longLimits(), slices.Concat(frame(17, 300000, chunk), frame(17, 300000-262144-1, chunk)), wire.ErrFrame},
		{"nothing left", longLimits(), slices.Concat(frame(17, 300000, chunk), frame(17, 0, chunk)), wire.ErrFrame},
	} {
		r := wire.NewReader(io.MultiReader(bytes.NewReader(c.stream), bytes.NewReader(good)), c.limits)
		for range 2 {
			if m, err := r.Read(); m != nil || !errors.Is(err, c.want) {
				t.Errorf("%s: %v, %v; want %v", c.name, m, err, c.want)
			}
		}
	}
	// A message that is as long as may be is not too long, and what stands behind it
	// is no part of it.
	_, b := long()
	r := wire.NewReader(bytes.NewReader(append(b, "garbage"...)), longLimits())
	if _, err := r.Read(); err != nil {
		t.Errorf("a message as long as may be: %v", err)
	}
	if m, err := r.Read(); m != nil || !errors.Is(err, wire.ErrKind) {
		t.Errorf("garbage: %v, %v; want ErrKind", m, err)
	}
}

// A message that is no good leaves the stream in step.
func TestReaderGoesOn(t *testing.T) {
	good := unhex(t, readGolden(t).Good[0].Frame)
	r := wire.NewReader(bytes.NewReader(slices.Concat(frame(17, 5, []byte{0x0a, 1, 'm', 0x18, 1}), good)), goldenLimits())
	if m, err := r.Read(); m != nil || !errors.Is(err, codec.ErrSyntax) {
		t.Errorf("an unknown field: %v, %v", m, err)
	}
	if m, err := r.Read(); err != nil || m.Kind() != protocol.KindOpen {
		t.Errorf("the message behind it: %v, %v", m, err)
	}
}

// An error of the stream itself is handed on, as it is.
func TestStreamFails(t *testing.T) {
	_, b := long()
	for _, n := range []int{0, 3, 5, 100, 262149, 300000} {
		r := wire.NewReader(io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(io.ErrClosedPipe)), longLimits())
		for range 2 {
			if m, err := r.Read(); m != nil || !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("after %d bytes: %v, %v; want the stream's error", n, m, err)
			}
		}
	}
}

// A message that is announced takes memory as it comes: nothing of a gigabyte, and
// for a megabyte of it a few, those counted that a buffer had before it grew.
func TestAnnouncedLengthCostsNothing(t *testing.T) {
	l := goldenLimits()
	l.Bytes[protocol.KindFinal] = 1 << 30
	var sent []byte
	chunk := make([]byte, 262144)
	for i := range 4 {
		sent = append(sent, frame(17, uint32(1<<30-i*len(chunk)), chunk)...)
	}
	for arrived, most := range map[int]uint64{0: 16 << 10, 5: 16 << 10, 1000: 32 << 10, len(sent): 16 << 20} {
		var err error
		n := allocated(func() { _, err = wire.NewReader(bytes.NewReader(sent[:arrived]), l).Read() })
		if n > most || err == nil {
			t.Errorf("%d bytes of a gigabyte: %v after %d bytes from the heap, at most %d are allowed", arrived, err, n, most)
		}
	}
}
