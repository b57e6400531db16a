package peer

import (
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/protocol"
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
	// Moves reports that a long message begins to be written, and its progress. until is when the last byte
	// should have arrived, at the speed of earlier bytes. nil: not called.
	Moves func(begins bool, until time.Time)
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

// Write empties the queue into a steady stream until the stream ends or done is closed. A peer that takes
// less than leastRate is given up after its Patience, however long a message is.
func (q *Queue) Write(s network.Stream, done <-chan struct{}) error {
	for {
		if err := q.flush(s); err != nil {
			return err
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

// flush writes what waits, with one deadline for all of it, which what moves puts off.
func (q *Queue) flush(s network.Stream) error {
	b := q.next()
	if b == nil {
		return nil
	}
	if err := s.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		q.unread(b)
		return err
	}
	long := q.Moves != nil && q.length()+len(b) >= protocol.LongMessage
	began, written := time.Now(), 0
	if long {
		q.Moves(true, time.Time{})
	}
	for ; b != nil; b = q.next() {
		n, err := s.Write(b)
		if written += n; err != nil {
			q.unread(b)
			return err
		}
	}
	if long {
		q.Moves(false, lastArrival(time.Now(), written, time.Since(began)))
	}
	return nil
}

// lastArrival is when bytes have arrived that took so long to be written: up to a window of them is still on its way
// then. Where all fit into it, nothing says how fast they are, except that a line carries leastRate.
func lastArrival(now time.Time, written int, took time.Duration) time.Time {
	if written <= window {
		return now.Add(time.Duration(written) * time.Second / leastRate)
	}
	return now.Add(min(Patience, time.Duration(float64(took)*window/float64(written-window))))
}

// length is the number of bytes that wait.
func (q *Queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// QueueSize is the number of bytes that may wait for a slow peer, besides one message of any size.
const QueueSize = 64 << 20
