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
		q.Stale()
		if err := q.Add([]byte("n"), []byte("ew")); err != nil {
			t.Fatal(err)
		}
		q.End()
		s := &brittle{left: 100}
		if err := q.Write(s, nil); err != nil || string(s.got) != want || q.bytes != 0 {
			t.Errorf("after %d pieces the peer gets %q, want %q; %d bytes are thought to wait, %v", taken, s.got, want, q.bytes, err)
		}
	}
}

// A message that is made when it is written stands in its place. If there is none any more, nothing is written of it,
// and an error ends the stream.
func TestMessagesThatAreMadeLate(t *testing.T) {
	made := 0
	make := func(pieces ...[]byte) func() ([][]byte, error) {
		return func() ([][]byte, error) { made++; return pieces, nil }
	}
	q := NewQueue(QueueSize)
	q.AddLater(make([]byte{9}))
	q.Stale()
	_ = q.Add([]byte{1})
	q.AddLater(make([]byte{2}, []byte{3}))
	q.AddLater(make())
	_ = q.Add([]byte{4})
	q.AddLater(make([]byte{5}))
	q.End()
	if made != 0 || q.bytes != 2 {
		t.Errorf("%d messages are made before they are written, %d bytes wait", made, q.bytes)
	}
	s := &brittle{left: 2}
	if err := q.Write(s, nil); !errors.Is(err, errBroken) || !bytes.Equal(s.got, []byte{1, 2}) {
		t.Errorf("%v, %v", s.got, err)
	}
	s = &brittle{left: 9}
	if err := q.Write(s, nil); err != nil || !bytes.Equal(s.got, []byte{3, 4, 5}) || q.bytes != 0 {
		t.Errorf("%v, %v, %d bytes wait", s.got, err, q.bytes)
	}
	q.AddLater(func() ([][]byte, error) { return nil, errBroken })
	if err := q.Write(s, nil); !errors.Is(err, errBroken) {
		t.Errorf("the error is %v", err)
	}
}
