package peer

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// brittle is a stream that breaks once so many bytes were written.
type brittle struct {
	network.Stream
	left int
	got  []byte
}

var errBroken = errors.New("broken")

func (*brittle) SetWriteDeadline(time.Time) error { return nil }

func (b *brittle) CloseWrite() error { return nil }

func (b *brittle) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.got = append(b.got, p[:n]...)
	if n < len(p) {
		return n, errBroken
	}
	return n, nil
}

// A message that was half written when a connection broke is written in full over the next
// connection, before the messages behind it.
func TestWhatIsHalfWrittenIsWrittenAgain(t *testing.T) {
	const part = 64 << 10
	first, second := bytes.Repeat([]byte{1}, 3*part), []byte{2, 2}
	for _, broken := range []int{0, 1, part, 3*part - 1} {
		q := NewQueue(QueueSize)
		if err := errors.Join(q.Add(first), q.Add(second)); err != nil {
			t.Fatal(err)
		}
		q.End()
		if err := q.Write(&brittle{left: broken}, nil); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		next := &brittle{left: 4 * part}
		if err := q.Write(next, nil); err != nil || !bytes.Equal(next.got, append(bytes.Clone(first), second...)) {
			t.Errorf("broken after %d bytes, the next stream gets %d bytes, %v", broken, len(next.got), err)
		}
		if q.bytes != 0 {
			t.Errorf("%d bytes are thought to wait", q.bytes)
		}
	}
}

// A message that makes the messages before it useless takes their place. A message that is partly written stays whole.
func TestStaleMessagesAreNotSent(t *testing.T) {
	for taken, want := range []string{"new", "bcdnew", "new", "fnew", "new"} {
		q := NewQueue(QueueSize)
		if err := errors.Join(q.Add([]byte("a"), []byte("bcd")), q.Add([]byte("e"), []byte("f")), q.Add([]byte("g"))); err != nil {
			t.Fatal(err)
		}
		for range taken {
			q.next()
		}
		if err := q.Replace([]byte("n"), []byte("ew")); err != nil {
			t.Fatal(err)
		}
		q.End()
		s := &brittle{left: 100}
		if err := q.Write(s, nil); err != nil || string(s.got) != want || q.bytes != 0 {
			t.Errorf("after %d pieces the peer gets %q, want %q; %d bytes are thought to wait, %v", taken, s.got, want, q.bytes, err)
		}
	}
}
