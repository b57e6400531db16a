package wire

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/protocol/codec"
	"github.com/fedsim/fedsim/protocol"
)

// Faults of a stream of frames. codec.ErrLimit is returned for a message that is longer than is accepted of its kind.
var (
	// ErrKind: a frame of an unknown kind, or of a kind that is not accepted here.
	ErrKind = errors.New("wire: a message of this kind is not taken here")
	// ErrEmpty: a message of no bytes.
	ErrEmpty = errors.New("wire: a message of no bytes")
	// ErrFrame: a frame that is not the next one of its message.
	ErrFrame = errors.New("wire: the frame does not continue the message before it")
	// ErrTruncated: the stream ends within a message.
	ErrTruncated = errors.New("wire: the stream ends within a message")
)

// AppendFrames appends the frames of a message, which may be written to any number of streams. It returns the errors of Marshal,
// and codec.ErrLimit for a message of 4 GiB or more, whose length no header can hold.
func AppendFrames(dst []byte, m protocol.Message) ([]byte, error) {
	b, err := Marshal(m)
	if err != nil {
		return dst, err
	}
	pieces, err := frames(m.Kind(), b, nil)
	return slices.Concat(append([][]byte{dst}, pieces...)...), err
}

// frames returns the frames of a message whose bytes are a and then b, as slices of them.
func frames(kind protocol.Kind, a, b []byte) ([][]byte, error) {
	if uint64(len(a))+uint64(len(b)) > math.MaxUint32 {
		return nil, &FieldError{Kind: kind, Err: fmt.Errorf("%w: %d bytes do not fit a frame's header", codec.ErrLimit, len(a)+len(b))}
	}
	var out [][]byte
	for left := len(a) + len(b); left > 0; left = len(a) + len(b) {
		out = append(out, binary.BigEndian.AppendUint32([]byte{kind.Code()}, uint32(left)))
		n := min(left, protocol.FramePayload)
		first := min(n, len(a))
		for _, piece := range [][]byte{a[:first], b[:n-first]} {
			if len(piece) > 0 {
				out = append(out, piece)
			}
		}
		a, b = a[first:], b[n-first:]
	}
	return out, nil
}

// Reader reads messages from a stream. It reads ahead, so that the stream is its
// own from then on. It is not safe for concurrent use.
type Reader struct {
	r      *bufio.Reader
	limits Limits
	moves  func(begins bool) // is told of long messages; nil: not called
	keeps  bool              // it keeps the beginning of broadcasts
	begun  Begun
	err    error // of the stream, which is out of step from then on
}

// NewReader makes a reader of what a peer sends within the limits.
func NewReader(r io.Reader, l Limits) *Reader {
	return &Reader{r: bufio.NewReader(r), limits: l}
}

// Watch has a function be told when a message of protocol.LongMessage or more begins to be read, and when it has been.
func (r *Reader) Watch(moves func(begins bool)) { r.moves = moves }

// Read reads the next message. It returns io.EOF if the stream ends between messages. After a *FieldError the message was read to
// its end, and the next can be read. After any other error the stream is lost, and Read returns the same error again: ErrKind,
// codec.ErrLimit, ErrEmpty, ErrFrame, ErrTruncated or the stream's own.
func (r *Reader) Read() (protocol.Message, error) {
	if r.err != nil {
		return nil, r.err
	}
	kind, b, err := r.frames()
	if err != nil {
		r.err = err
		return nil, err
	}
	return Unmarshal(kind, b, r.limits)
}

// frames reads the frames of a message.
func (r *Reader) frames() (kind protocol.Kind, b []byte, err error) {
	if _, err = r.r.Peek(1); err != nil {
		return 0, nil, err // io.EOF: between messages
	}
	code, left, err := r.header()
	if err != nil {
		return 0, nil, err
	}
	resumes := code&continues != 0
	code &^= continues
	kind, ok := protocol.KindOf(code)
	var had []byte
	if resumes && r.begun.kind == kind {
		had = r.begun.part
	}
	switch {
	case !ok || r.limits.Bytes[kind] == 0:
		return 0, nil, fmt.Errorf("%w: kind %d", ErrKind, code)
	case left == 0:
		return 0, nil, fmt.Errorf("%w: %s", ErrEmpty, kind)
	case left+int64(len(had)) > int64(r.limits.Bytes[kind]):
		return 0, nil, fmt.Errorf("wire: %s of %d bytes, at most %d: %w", kind, left+int64(len(had)), r.limits.Bytes[kind], codec.ErrLimit)
	case resumes && len(had) == 0:
		return 0, nil, fmt.Errorf("%w: the rest of %s of which nothing has come", ErrFrame, kind)
	}
	if r.moves != nil && left >= protocol.LongMessage {
		r.moves(true)
		defer r.moves(false)
	}
	var buf bytes.Buffer
	buf.Write(had)
	of := kind // a return with an error sets kind
	defer func() {
		if err != nil {
			part := buf.Bytes()[:buf.Len()/protocol.FramePayload*protocol.FramePayload]
			if r.keeps && broadcast(of) && len(part) > len(r.begun.part) {
				r.begun = Begun{kind: of, part: part}
			}
		}
	}()
	for {
		n := min(left, protocol.FramePayload)
		// The buffer grows with what arrives, not with what is announced.
		if _, err = io.CopyN(&buf, r.r, n); err != nil {
			return 0, nil, within(err)
		}
		if left -= n; left == 0 {
			if r.keeps && broadcast(kind) {
				r.begun = Begun{start: Start{kind, buf.Len(), sha256.Sum256(buf.Bytes())}}
			}
			return kind, buf.Bytes(), nil
		}
		var next byte
		var rest int64
		if next, rest, err = r.header(); err != nil {
			return 0, nil, err
		}
		if next != code || rest != left {
			return 0, nil, fmt.Errorf("%w: kind %d with %d bytes left in a message of kind %d with %d left", ErrFrame, next, rest, code, left)
		}
	}
}

// header reads the header of a frame: kind and bytes left.
func (r *Reader) header() (code byte, left int64, err error) {
	var b [protocol.FrameHeader]byte
	if _, err = io.ReadFull(r.r, b[:]); err != nil {
		return 0, 0, within(err)
	}
	return b[0], int64(binary.BigEndian.Uint32(b[1:])), nil
}

// within is an error of the stream in the middle of a message.
func within(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// A broadcast is long, and the same for many. When a stream breaks within a broadcast, the receiver keeps the frames that have come,
// and says on its next stream how many bytes they have, with their digest. The sender then sends the rest, if its message for the receiver
// begins with the same bytes. The receiver verifies the server's signature of the whole message.

// continues is set in the kind of a frame's header whose message begins with what the receiver has.
const continues = 0x80

// broadcast says whether a message is long and the same for many.
func broadcast(k protocol.Kind) bool { return k == protocol.KindAnnounce || k == protocol.KindFinal }

// Begun holds the beginning of the latest broadcast. The zero value is of none.
type Begun struct {
	kind  protocol.Kind
	part  []byte // of a broadcast that has not come whole
	start Start  // of a whole broadcast
}

// Start names the first bytes of a message.
type Start struct {
	Kind   protocol.Kind
	Bytes  int
	Digest [sha256.Size]byte
}

// Start names the bytes that have come; false: none have.
func (b *Begun) Start() (Start, bool) {
	if len(b.part) > 0 {
		return Start{b.kind, len(b.part), sha256.Sum256(b.part)}, true
	}
	return b.start, b.start.Bytes > 0
}

// Keep has the reader keep the beginning of broadcasts, and continue the broadcast that began over an earlier stream.
func (r *Reader) Keep(b Begun) { r.keeps, r.begun = true, b }

// Begun returns the beginning of the latest broadcast. The reader must not be used any more.
func (r *Reader) Begun() Begun { return r.begun }

// Rest returns the frames that take a message to its end for a receiver that has its first frames: none if it has
// all of them. pieces are the frames of the whole message. It is false if the message begins otherwise.
func Rest(pieces [][]byte, s Start) (rest []byte, ok bool) {
	rest = slices.Concat(pieces...)
	h := sha256.New()
	for had := 0; had < s.Bytes; {
		if len(rest) <= protocol.FrameHeader || rest[0] != s.Kind.Code() {
			return nil, false
		}
		frame := rest[protocol.FrameHeader:][:min(protocol.FramePayload, len(rest)-protocol.FrameHeader)]
		_, _ = h.Write(frame) // a hash takes all
		had, rest = had+len(frame), rest[protocol.FrameHeader+len(frame):]
		if had > s.Bytes {
			return nil, false
		}
	}
	if s.Bytes <= 0 || [sha256.Size]byte(h.Sum(nil)) != s.Digest {
		return nil, false
	}
	if len(rest) > 0 {
		rest[0] |= continues
	}
	return rest, true
}
