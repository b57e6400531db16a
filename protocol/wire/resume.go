package wire

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/fedsim/fedsim/protocol"
)

// A broadcast is long, and the same for many. When a stream breaks within a broadcast, the receiver keeps the bytes that have come,
// and says on its next stream how many they are, with their digest. The sender then sends the rest, if its message for the receiver
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

// stopped keeps the bytes of a message that had come when the stream broke.
func (r *Reader) stopped(kind protocol.Kind, part []byte) {
	if r.keeps && broadcast(kind) && len(part) > len(r.begun.part) {
		r.begun = Begun{kind: kind, part: part}
	}
}

// came notes that a message has come whole.
func (r *Reader) came(kind protocol.Kind, b []byte) {
	if r.keeps && broadcast(kind) {
		r.begun = Begun{start: Start{kind, len(b), sha256.Sum256(b)}}
	}
}

// Rest returns the frames that take a message to its end for a receiver that has its first bytes, in pieces: none
// if it has all of them. pieces are the frames of the whole message. It is false if the message begins otherwise.
func Rest(pieces [][]byte, s Start) (rest [][]byte, ok bool) {
	code, parts, length := payload(pieces)
	kind, known := protocol.KindOf(code)
	if !known || kind != s.Kind || s.Bytes <= 0 || s.Bytes > length {
		return nil, false
	}
	h, skip := sha256.New(), s.Bytes
	for skip > 0 {
		n := min(skip, len(parts[0]))
		_, _ = h.Write(parts[0][:n]) // a hash takes all
		parts[0], skip = parts[0][n:], skip-n
		if len(parts[0]) == 0 {
			parts = parts[1:]
		}
	}
	if [sha256.Size]byte(h.Sum(nil)) != s.Digest {
		return nil, false
	}
	mark := byte(continues)
	for left := length - s.Bytes; left > 0; mark = 0 {
		rest = append(rest, binary.BigEndian.AppendUint32([]byte{code | mark}, uint32(left)))
		for n := min(left, protocol.FramePayload); n > 0; {
			m := min(n, len(parts[0]))
			rest = append(rest, parts[0][:m])
			parts[0], n, left = parts[0][m:], n-m, left-m
			if len(parts[0]) == 0 {
				parts = parts[1:]
			}
		}
	}
	return rest, true
}

// payload takes the headers out of the frames of a message.
func payload(pieces [][]byte) (code byte, parts [][]byte, length int) {
	var head []byte
	frame := 0 // bytes left of it
	for _, p := range pieces {
		for len(p) > 0 {
			if frame == 0 {
				n := min(protocol.FrameHeader-len(head), len(p))
				head, p = append(head, p[:n]...), p[n:]
				if len(head) == protocol.FrameHeader {
					code, frame = head[0], min(int(binary.BigEndian.Uint32(head[1:])), protocol.FramePayload)
					head = nil
				}
				continue
			}
			n := min(frame, len(p))
			parts, length = append(parts, p[:n]), length+n
			p, frame = p[n:], frame-n
		}
	}
	return code, parts, length
}
