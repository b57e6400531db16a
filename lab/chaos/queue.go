package chaos

import (
	"container/heap"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// happening is one input for one role. Unlike the simulator's, these stand alone:
// each has a time of its own, so that any two may change places.
type happening struct {
	at  time.Time
	seq uint64 // of two at one time, the first to be scheduled comes first
	to  protocol.Party
	in  protocol.Input // nil with work, whose Done it is; nil without: a client comes up again
	// work is run first, if there is any.
	work *protocol.Work
	// life is the client's life that the work belongs to: it is lost with it.
	life int
}

type queue struct {
	heap happenings
	seq  uint64
}

func (q *queue) add(h *happening) {
	q.seq++
	h.seq = q.seq
	heap.Push(&q.heap, h)
}

// next takes the earliest happening out; nil when nothing is left.
func (q *queue) next() *happening {
	if len(q.heap) == 0 {
		return nil
	}
	return heap.Pop(&q.heap).(*happening)
}

// happenings is a heap by time, then by sequence.
type happenings []*happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(*happening)) }
func (h *happenings) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
