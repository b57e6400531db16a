package protocol_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/protocol/codec"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// A stream breaks after any number of bytes of a model of three frames. The rest over the next stream makes it whole, and has
// the frames that had not come whole.
func TestBroadcastContinues(t *testing.T) {
	want := &protocol.Final{Model: bytes.Repeat([]byte{1, 2, 3}, protocol.FramePayload), Signature: bytes.Repeat([]byte{4}, 64)}
	whole, err := wire.AppendFrames(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	const frame = protocol.FrameHeader + protocol.FramePayload
	length := len(whole) - len(whole)/frame*protocol.FrameHeader - protocol.FrameHeader
	limits := unlimitedKinds()
	for _, cut := range []int{1, 5, 6, 1000, 5 + protocol.FramePayload, 8 + protocol.FramePayload, len(whole) - 1} {
		r := wire.NewReader(bytes.NewReader(whole[:cut]), limits)
		r.Keep(wire.Begun{})
		if _, err = r.Read(); !errors.Is(err, wire.ErrTruncated) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		begun := r.Begun()
		s, ok := begun.Start()
		rest := whole
		if ok != (cut >= frame) || ok && s.Bytes != cut/frame*protocol.FramePayload {
			t.Errorf("cut at %d: %d bytes are kept (%t)", cut, s.Bytes, ok)
		}
		if ok {
			if rest, ok = wire.Rest([][]byte{whole[:7], whole[7:]}, s); !ok {
				t.Fatalf("cut at %d: %d bytes have come, and no rest is sent", cut, s.Bytes)
			}
			if want := len(whole) - cut/frame*frame; len(rest) != want {
				t.Errorf("cut at %d: %d bytes are sent, want %d", cut, len(rest), want)
			}
		}
		next := wire.NewReader(bytes.NewReader(rest), limits)
		next.Keep(begun)
		m, err := next.Read()
		if got, is := m.(*protocol.Final); err != nil || !is || !bytes.Equal(got.Model, want.Model) || !bytes.Equal(got.Signature, want.Signature) {
			t.Errorf("cut at %d: %v, and it is not the same message", cut, err)
		}
		begun = next.Begun()
		if s, ok = begun.Start(); !ok || s.Bytes != length {
			t.Errorf("cut at %d: %d bytes of %d have come whole", cut, s.Bytes, length)
		}
		if rest, ok = wire.Rest([][]byte{whole}, s); !ok || len(rest) > 0 {
			t.Errorf("cut at %d: %d bytes are sent to who has all", cut, len(rest))
		}
	}
}

// A message that begins otherwise, or of another kind, is sent whole. A rest of which the receiver has no beginning,
// or that is too long with it, ends the stream.
func TestRestOfAnotherBroadcast(t *testing.T) {
	whole, err := wire.AppendFrames(nil, &protocol.Final{Model: bytes.Repeat([]byte{1, 2, 3}, protocol.FramePayload/2), Signature: bytes.Repeat([]byte{4}, 64)})
	if err != nil {
		t.Fatal(err)
	}
	const n = protocol.FramePayload
	text := slices.Concat(whole[protocol.FrameHeader:][:n], whole[2*protocol.FrameHeader+n:])
	for name, s := range map[string]wire.Start{
		"another":      {Kind: protocol.KindFinal, Bytes: n, Digest: sha256.Sum256(text[1 : n+1])},
		"another kind": {Kind: protocol.KindAnnounce, Bytes: n, Digest: sha256.Sum256(text[:n])},
		"no frames":    {Kind: protocol.KindFinal, Bytes: 500, Digest: sha256.Sum256(text[:500])},
		"too long":     {Kind: protocol.KindFinal, Bytes: len(text) + 1, Digest: sha256.Sum256(text)},
		"nothing":      {Kind: protocol.KindFinal, Bytes: 0, Digest: sha256.Sum256(nil)},
		"less":         {Kind: protocol.KindFinal, Bytes: -1, Digest: sha256.Sum256(nil)},
	} {
		if _, ok := wire.Rest([][]byte{whole}, s); ok {
			t.Errorf("%s: a rest is sent", name)
		}
	}
	rest, ok := wire.Rest([][]byte{whole}, wire.Start{Kind: protocol.KindFinal, Bytes: n, Digest: sha256.Sum256(text[:n])})
	if !ok {
		t.Fatal("no rest is sent")
	}
	r := wire.NewReader(bytes.NewReader(rest), unlimitedKinds())
	if _, err = r.Read(); !errors.Is(err, wire.ErrFrame) {
		t.Errorf("who has no beginning reads: %v, want %v", err, wire.ErrFrame)
	}
	short := unlimitedKinds()
	short.Bytes[protocol.KindFinal] = len(text) - 1
	first := wire.NewReader(bytes.NewReader(whole[:protocol.FrameHeader+n]), unlimitedKinds())
	first.Keep(wire.Begun{})
	if _, err = first.Read(); !errors.Is(err, wire.ErrTruncated) {
		t.Fatal(err)
	}
	r = wire.NewReader(bytes.NewReader(rest), short)
	r.Keep(first.Begun())
	if _, err = r.Read(); !errors.Is(err, codec.ErrLimit) {
		t.Errorf("with its beginning it is too long, and reads: %v, want %v", err, codec.ErrLimit)
	}
}

// unlimitedKinds accepts 1 GiB of each kind.
func unlimitedKinds() wire.Limits {
	var l wire.Limits
	for k := range l.Bytes {
		l.Bytes[k] = 1 << 30
	}
	return l
}
