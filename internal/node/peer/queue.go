package peer

import (
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/internal/locked"
)

// Queue holds data to be written to a stream, so that no caller waits for a slow peer. It is
// bounded in bytes: a peer that falls behind further is disconnected.
type Queue struct {
	mu      sync.Mutex
	waiting []piece
	bytes   int
	most    int
	last    bool          // nothing is added any more
	Keeps   bool          // taken: for rewind
	taken   *piece        // the last piece that was taken, if Keeps
	more    chan struct{} // has a token when there is something to do
	// Moves reports that a long message begins to be written, and its progress. until is when the last byte
	// should have arrived, at the speed of earlier bytes. nil: not called.
	Moves func(begins bool, until time.Time)
	Long  int // bytes of a long message
}

// piece is a part of a message, or all of it.
type piece struct {
	bytes []byte
	first bool                     // it begins the message
	make  func() ([][]byte, error) // makes the message when it is written; nil: bytes has it
}

// NewQueue makes a queue of at most so many bytes, and one message of any size.
func NewQueue(most int) *Queue { return &Queue{most: most, more: make(chan struct{}, 1)} }

// Add never blocks. It takes a message, in one piece or several, whose bytes must not be
// changed afterwards; they may be in other queues too.
func (q *Queue) Add(pieces ...[]byte) error {
	message, n := whole(pieces)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 && q.bytes+n > q.most {
		return errors.New("node: the peer does not take what it is sent") // or too slowly
	}
	q.waiting, q.bytes = append(q.waiting, message...), q.bytes+n
	Wake(q.more)
	return nil
}

// whole is a message in its pieces, and their length.
func whole(pieces [][]byte) (message []piece, n int) {
	for i, b := range pieces {
		message, n = append(message, piece{bytes: b, first: i == 0}), n+len(b)
	}
	return message, n
}

// AddLater is Add of a message that is made when it is to be written, so that it takes no memory before. The function
// may return nothing, if the message is not of use any more. An error ends the stream.
func (q *Queue) AddLater(message func() ([][]byte, error)) {
	locked.Do(&q.mu, func() { q.waiting = append(q.waiting, piece{first: true, make: message}) })
	Wake(q.more)
}

// Stale takes out all messages that wait, except a message that is partly written: a slow peer is not sent one stale message
// after the other.
func (q *Queue) Stale() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range q.waiting {
		if p.first {
			for _, old := range q.waiting[i:] {
				q.bytes -= len(old.bytes)
			}
			q.waiting = q.waiting[:i]
			break
		}
	}
}

// End lets the other side know, behind what waits, that nothing follows.
func (q *Queue) End() {
	locked.Do(&q.mu, func() { q.last = true })
	Wake(q.more)
}

// Length counts the waiting pieces.
func (q *Queue) Length() int { return locked.Get(&q.mu, func() int { return len(q.waiting) }) }

// Wake puts a token into a channel with room for one, unless it has one.
func Wake(more chan<- struct{}) {
	select {
	case more <- struct{}{}:
	default:
	}
}

func (q *Queue) next() *piece {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	p := &q.waiting[0]
	q.waiting, q.bytes = q.waiting[1:], q.bytes-len(p.bytes)
	if q.Keeps {
		q.taken = p
	}
	return p
}

// Rewind puts back what was written last: the stream has broken, and it may not have arrived.
func (q *Queue) Rewind() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken != nil {
		q.before(len(q.taken.bytes), *q.taken)
		q.taken = nil
	}
}

// before puts pieces of n bytes before all others. The caller holds mu.
func (q *Queue) before(n int, pieces ...piece) {
	q.waiting, q.bytes = append(pieces, q.waiting...), q.bytes+n
	Wake(q.more)
}

// unread puts back what could not be written whole, for a stream that comes after this one. A queue that keeps
// what it wrote last is rewound instead.
func (q *Queue) unread(p *piece) {
	if !q.Keeps {
		locked.Do(&q.mu, func() { q.before(len(p.bytes), *p) })
	}
}

// Clear takes out all that waits, for who has no use for it any more.
func (q *Queue) Clear() { locked.Do(&q.mu, func() { q.waiting, q.bytes, q.taken = nil, 0, nil }) }

// Write empties the queue into a steady stream until the stream ends or done is closed. A peer that takes
// less than leastRate is given up after its Patience, however long a message is.
func (q *Queue) Write(s network.Stream, done <-chan struct{}) error {
	for {
		if err := q.flush(s); err != nil {
			return err
		}
		if locked.Get(&q.mu, func() bool { return q.last }) {
			return EndWriting(s)
		}
		select {
		case <-done:
			return nil
		case <-q.more:
		}
	}
}

// take returns the next piece, nil if none waits. It makes a message that was to be made.
func (q *Queue) take() (*piece, error) {
	for {
		p := q.next()
		if p == nil || p.make == nil {
			return p, nil
		}
		made, err := p.make()
		if err != nil {
			return nil, err
		}
		message, n := whole(made)
		locked.Do(&q.mu, func() { q.before(n, message...) })
	}
}

// flush writes what waits, with one deadline for all of it, which what moves puts off.
func (q *Queue) flush(s network.Stream) error {
	p, err := q.take()
	if p == nil {
		return err
	}
	if err = s.SetWriteDeadline(time.Now().Add(Patience)); err != nil {
		q.unread(p)
		return err
	}
	long := q.Moves != nil && locked.Get(&q.mu, func() int { return q.bytes })+len(p.bytes) >= q.Long
	began, written := time.Now(), 0
	if long {
		q.Moves(true, time.Time{})
	}
	for p != nil {
		n, failed := s.Write(p.bytes)
		if written += n; failed != nil {
			q.unread(p)
			return failed
		}
		if p, err = q.take(); err != nil {
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

// QueueSize is the number of bytes that may wait for a slow peer, besides one message of any size.
const QueueSize = 64 << 20
