package node

import (
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// errSlow: a peer takes what it is sent too slowly, or not at all.
var errSlow = errors.New("node: the peer does not take what it is sent")

// queue holds what is to be written to a stream, so that nobody waits for a slow
// peer. It is bounded in bytes: a peer that falls behind further is let go.
type queue struct {
	mu      sync.Mutex
	waiting [][]byte
	bytes   int
	most    int
	last    bool          // nothing is added any more
	keeps   bool          // taken: for rewind
	taken   []byte        // the last one that was, of a queue that keeps it
	more    chan struct{} // has a token when there is something to do
}

func newQueue(most int) *queue { return &queue{most: most, more: make(chan struct{}, 1)} }

// add never blocks. It takes a message, in one piece or several, whose bytes must not be
// changed afterwards; they may be in other queues too.
func (q *queue) add(pieces ...[]byte) error {
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

// end lets the other side know, behind what waits, that nothing follows.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = true
	q.wake()
}

// length is how many pieces wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *queue) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

func (q *queue) next() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	b := q.waiting[0]
	q.waiting, q.bytes = q.waiting[1:], q.bytes-len(b)
	if q.keeps {
		q.taken = b
	}
	return b
}

// rewind puts back what was written last: the stream has broken, and it may not have
// arrived.
func (q *queue) rewind() {
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
func (q *queue) unread(b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.keeps {
		return
	}
	q.waiting, q.bytes = append([][]byte{b}, q.waiting...), q.bytes+len(b)
	q.wake()
}

// clear takes out all that waits, for who has no use for it any more.
func (q *queue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.bytes, q.taken = nil, 0, nil
}

// chunk is how much is written at a time, each with a deadline of its own: a large
// message over a slow line is no reason to let a peer go, a standstill is.
const chunk = 64 << 10

// write empties the queue into a stream until the stream ends or done is closed.
func (q *queue) write(s network.Stream, done <-chan struct{}) error {
	for {
		for b := q.next(); b != nil; b = q.next() {
			if err := writePiece(s, b); err != nil {
				q.unread(b)
				return err
			}
		}
		if q.ended() {
			return endWriting(s)
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
		if err := s.SetWriteDeadline(time.Now().Add(frameTimeout)); err != nil {
			return err
		}
		if _, err := s.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// queueSize is how many bytes may wait for a peer that takes them slowly, besides
// one message of any size.
const queueSize = 64 << 20
