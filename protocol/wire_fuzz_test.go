package protocol_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// Bytes that decode as a message encode again, to no more bytes, as many as the message says, and
// these decode as an equal message. Other bytes are refused with a field's error.
func FuzzUnmarshal(f *testing.F) {
	g := readGolden(f)
	for _, c := range g.Good {
		f.Add(uint8(kindNamed(f, c.Kind)), unhex(f, c.Bytes))
	}
	for _, c := range g.Bad {
		f.Add(uint8(kindNamed(f, c.Kind)), unhex(f, c.Bytes))
	}
	l := goldenLimits()
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		m, err := wire.Unmarshal(protocol.Kind(kind), b, l)
		if err != nil {
			if _, ok := errors.AsType[*wire.FieldError](err); !ok || m != nil {
				t.Fatalf("%v, %v", m, err)
			}
			return
		}
		again, err := wire.Marshal(m)
		if err != nil || len(again) > len(b) || protocol.Size(m) != len(again)+5 {
			t.Fatalf("%d bytes decode as a message that says it takes %d and is encoded in %d, %v", len(b), protocol.Size(m), len(again), err)
		}
		got, err := wire.Unmarshal(m.Kind(), again, l)
		if err != nil || !cmp.Equal(m, got, sameBits) {
			t.Fatalf("%v; it comes back as another (-first +second):\n%s", err, cmp.Diff(m, got, sameBits))
		}
	})
}

// However bytes come, a reader takes messages that can be written and read again,
// or ends with an error that stays.
func FuzzReader(f *testing.F) {
	g := readGolden(f)
	for i, c := range g.Good {
		next := g.Good[(i+1)%len(g.Good)]
		f.Add(append(unhex(f, c.Frame), unhex(f, next.Frame)...))
		f.Add(unhex(f, c.Frame)[:len(c.Frame)/4])
	}
	_, three := long()
	f.Add(three)
	l := longLimits()
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := wire.NewReader(bytes.NewReader(stream), l)
		var written []byte
		for range len(stream) + 1 { // every call takes at least a byte, or ends it
			m, err := r.Read()
			if _, ok := errors.AsType[*wire.FieldError](err); ok {
				continue
			}
			if err != nil {
				if _, again := r.Read(); !errors.Is(again, err) {
					t.Fatalf("%v, and then %v", err, again)
				}
				break
			}
			if written, err = wire.AppendFrames(written, m); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Read(); err == nil || len(written) > len(stream) {
			t.Fatalf("%d bytes were messages of %d bytes, and there is another: %v", len(stream), len(written), err)
		}
		for r = wire.NewReader(bytes.NewReader(written), l); ; {
			if _, err := r.Read(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("what was read and written is not read again: %v", err)
			}
		}
	})
}
