package sim

import (
	"container/heap"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// instant holds everything that happens at one point of virtual time, in the order in which it was
// scheduled.
type instant struct {
	at     time.Time
	works  []work
	inputs []arrival
}

// work is a role's computation, due to report at its instant.
type work struct {
	by  protocol.Party
	job protocol.Work
}

// arrival is an input for a role. The messages of a whole cohort are on their way at once, and take
// less memory in this form than as inputs.
type arrival struct {
	to, from protocol.Party // from: the sender of a message that is addressed to the recipient
	what     any            // such a message, or a protocol.Input
}

type hearer interface {
	Receive(time.Time, protocol.Envelope) protocol.Effects
}

func (a arrival) step(now time.Time, to role) protocol.Effects {
	m, ok := a.what.(protocol.Message)
	if !ok {
		return to.Step(now, a.what.(protocol.Input))
	}
	e := protocol.Envelope{From: a.from, To: a.to, Message: m}
	if h, ok := to.(hearer); ok {
		return h.Receive(now, e)
	}
	return to.Step(now, protocol.Received{Envelope: e})
}

// queue orders instants by time. Messages of a whole cohort fall on the same few instants, so the
// queue is small for any number of clients.
type queue struct {
	heap   instants
	byTime map[int64]*instant
	// These are empty slices for the works or the inputs of an instant. Few instants have both, or
	// the inputs of a whole cohort.
	works  [][]work
	inputs [][]arrival
}

func (q *queue) at(t time.Time) *instant {
	key := t.UnixNano()
	if i, ok := q.byTime[key]; ok {
		return i
	}
	i := &instant{at: t}
	q.byTime[key] = i
	heap.Push(&q.heap, i)
	return i
}

func (q *queue) work(t time.Time, w work) {
	i := q.at(t)
	if i.works == nil {
		i.works = spare(&q.works)
	}
	i.works = append(i.works, w)
}

func (q *queue) arrive(t time.Time, a arrival) {
	i := q.at(t)
	if i.inputs == nil {
		i.inputs = spare(&q.inputs)
	}
	i.inputs = append(i.inputs, a)
}

// recycle takes back the slices of an instant that has happened. They must not be used afterwards.
func (q *queue) recycle(i *instant) {
	if cap(i.works) > 0 {
		clear(i.works)
		q.works = append(q.works, i.works[:0])
	}
	if cap(i.inputs) > 0 {
		clear(i.inputs)
		q.inputs = append(q.inputs, i.inputs[:0])
	}
	*i = instant{}
}

// spare removes and returns the slice that was given back last; nil if there is none.
func spare[T any](list *[][]T) []T {
	n := len(*list)
	if n == 0 {
		return nil
	}
	room := (*list)[n-1]
	*list = (*list)[:n-1]
	return room
}

// next removes and returns the earliest instant; nil when the queue is empty.
func (q *queue) next() *instant {
	if len(q.heap) == 0 {
		return nil
	}
	i := heap.Pop(&q.heap).(*instant)
	delete(q.byTime, i.at.UnixNano())
	return i
}

// instants is a heap by time.
type instants []*instant

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *instants) Push(x any)        { *h = append(*h, x.(*instant)) }
func (h *instants) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil // a past instant may hold the messages of a whole cohort
	*h = old[:len(old)-1]
	return last
}
