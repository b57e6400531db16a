package sim

import (
	"container/heap"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// instant is everything that falls on one point of virtual time, in the order
// in which it was scheduled.
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

// arrival is an input for a role. Messages of a whole cohort are on their way at once: they are kept in less memory than as inputs.
type arrival struct {
	to, from protocol.Party // from: of a message that is addressed to the one who gets it
	what     any            // such a message, or a protocol.Input
}

// hearer is a role that takes a message as it is.
type hearer interface {
	Receive(time.Time, protocol.Envelope) protocol.Effects
}

// step feeds it to its role.
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

// queue orders instants by time. Messages of a whole cohort fall on the same
// few instants, so it is small however many clients there are.
type queue struct {
	heap   instants
	byTime map[int64]*instant
	// Room for the works or the inputs of an instant, empty: few instants have both, and those of a whole cohort.
	works  [][]work
	inputs [][]arrival
}

func newQueue() *queue { return &queue{byTime: make(map[int64]*instant)} }

// at finds or makes the instant of a time.
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

// work adds a computation to what happens at a time.
func (q *queue) work(t time.Time, w work) {
	i := q.at(t)
	if i.works == nil {
		i.works = spare(&q.works)
	}
	i.works = append(i.works, w)
}

// arrive adds an input to what happens at a time.
func (q *queue) arrive(t time.Time, a arrival) {
	i := q.at(t)
	if i.inputs == nil {
		i.inputs = spare(&q.inputs)
	}
	i.inputs = append(i.inputs, a)
}

// recycle takes back the room of an instant that has happened. Nothing of it may be used any more.
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

// spare takes out the room that was given back last; nil where there is none.
func spare[T any](list *[][]T) []T {
	n := len(*list)
	if n == 0 {
		return nil
	}
	room := (*list)[n-1]
	*list = (*list)[:n-1]
	return room
}

// next takes the earliest instant out; nil when nothing is left.
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
	old[len(old)-1] = nil // what happened may hold the messages of a whole cohort
	*h = old[:len(old)-1]
	return last
}
