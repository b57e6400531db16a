package peer

import (
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// errSlow: a peer takes what it is sent too slowly, or not at all.
var errSlow = errors.New("node: the peer does not take what it is sent")

// Queue holds data to be written to a stream, so that no caller waits for a slow peer. It is
// bounded in bytes: a peer that falls behind further is disconnected.
type Queue struct {
	mu      sync.Mutex
	waiting [][]byte
	bytes   int
	most    int
	last    bool          // nothing is added any more
	Keeps   bool          // taken: for rewind
	taken   []byte        // the last piece that was taken, if Keeps
	more    chan struct{} // has a token when there is something to do
}

// NewQueue makes a queue of at most so many bytes, and one message of any size.
func NewQueue(most int) *Queue { return &Queue{most: most, more: make(chan struct{}, 1)} }

// Add never blocks. It takes a message, in one piece or several, whose bytes must not be
// changed afterwards; they may be in other queues too.
func (q *Queue) Add(pieces ...[]byte) error {
	n := 0
	for _, b := range pieces {
		n += len(b)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 && q.bytes+n > q.most {
		return errSlow
	}
	q.waiting, q.bytes = append(q.waiting, pieces...), q.bytes+n
	q.wake()
	return nil
}

// End lets the other side know, behind what waits, that nothing follows.
func (q *Queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = true
	q.wake()
}

// Length counts the waiting pieces.
func (q *Queue) Length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *Queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *Queue) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

func (q *Queue) next() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	b := q.waiting[0]
	q.waiting, q.bytes = q.waiting[1:], q.bytes-len(b)
	if q.Keeps {
		q.taken = b
	}
	return b
}

// Rewind puts back what was written last: the stream has broken, and it may not have
// arrived.
func (q *Queue) Rewind() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken != nil {
		q.waiting, q.bytes = append([][]byte{q.taken}, q.waiting...), q.bytes+len(q.taken)
		q.taken = nil
		q.wake()
	}
}

// unread puts back what could not be written whole, for a stream that comes after this one. A queue that keeps
// what it wrote last is rewound instead.
func (q *Queue) unread(b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Keeps {
		return
	}
	q.waiting, q.bytes = append([][]byte{b}, q.waiting...), q.bytes+len(b)
	q.wake()
}

// Clear takes out all that waits, for who has no use for it any more.
func (q *Queue) Clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.bytes, q.taken = nil, 0, nil
}

// chunk is the number of bytes written at a time, each chunk with a deadline of its own. A large
// message over a slow line is no reason to disconnect a peer, a standstill is.
const chunk = 64 << 10

// Write empties the queue into a stream until the stream ends or done is closed.
func (q *Queue) Write(s network.Stream, done <-chan struct{}) error {
	for {
		for b := q.next(); b != nil; b = q.next() {
			if err := writePiece(s, b); err != nil {
				q.unread(b)
				return err
			}
		}
		if q.ended() {
			return EndWriting(s)
		}
		select {
		case <-done:
			return nil
		case <-q.more:
		}
	}
}

// writePiece writes a message.
func writePiece(s network.Stream, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), chunk)
		if err := s.SetWriteDeadline(time.Now().Add(FrameTimeout)); err != nil {
			return err
		}
		if _, err := s.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// QueueSize is the number of bytes that may wait for a slow peer, besides one message of any size.
const QueueSize = 64 << 20
