package sim

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/problems"
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
	instants []*instant // the earliest last
	// These are for the works or the inputs of an instant. Few instants have both, or the inputs of a
	// whole cohort.
	works  spare[work]
	inputs spare[arrival]
}

func (q *queue) at(t time.Time) *instant {
	k, known := slices.BinarySearchFunc(q.instants, t, func(i *instant, t time.Time) int { return t.Compare(i.at) })
	if !known {
		q.instants = slices.Insert(q.instants, k, &instant{at: t})
	}
	return q.instants[k]
}

func (q *queue) work(t time.Time, w work) {
	i := q.at(t)
	i.works = q.works.add(i.works, w)
}

func (q *queue) arrive(t time.Time, a arrival) {
	i := q.at(t)
	i.inputs = q.inputs.add(i.inputs, a)
}

// recycle takes back the slices of an instant that has happened. They must not be used afterwards.
func (q *queue) recycle(i *instant) {
	q.works.take(i.works)
	q.inputs.take(i.inputs)
	*i = instant{}
}

// spare holds empty slices, whose memory is used again.
type spare[T any] [][]T

// add appends to a slice; if that is nil, to the slice that was taken back last.
func (s *spare[T]) add(to []T, x T) []T {
	if last := len(*s) - 1; to == nil && last >= 0 {
		to, *s = (*s)[last], (*s)[:last]
	}
	return append(to, x)
}

// take takes a slice back.
func (s *spare[T]) take(list []T) {
	if cap(list) > 0 {
		clear(list)
		*s = append(*s, list[:0])
	}
}

// next removes and returns the earliest instant; nil when the queue is empty.
func (q *queue) next() *instant {
	last := len(q.instants) - 1
	if last < 0 {
		return nil
	}
	i := q.instants[last]
	q.instants[last] = nil // a past instant may hold the messages of a whole cohort
	q.instants = q.instants[:last]
	return i
}

// Faults says which clients are lost, and when. Each client and round has a separate
// random stream, so the result does not depend on other clients or on the order of
// events.
type Faults struct {
	// Dropout is the probability, in [0, 1), that a client is lost in a round. It is
	// back in the next one.
	Dropout float64
	// Stages are the stages at which clients are lost, with equal probability: the client
	// stops before it sends that stage's message.
	Stages []protocol.Stage
	// Leave is the probability, in [0, 1], that a client leaves for good during the run,
	// at a round drawn uniformly.
	Leave float64
	// Away is the probability, in [0, 1], that a client goes away once, at a round
	// drawn uniformly, and is back after AwayRounds rounds.
	Away       float64
	AwayRounds int
	// Gone lists clients that are in no round, such as the places of a deployment that were given up.
	Gone []protocol.ClientID
}

// Validate reports everything that makes the faults unusable.
func (f Faults) Validate() error {
	var errs problems.List
	errs.If(!(f.Dropout >= 0 && f.Dropout < 1), "dropout is %v; it must be at least 0 and below 1", f.Dropout)
	errs.If(f.Dropout > 0 && len(f.Stages) == 0, "clients drop out, but at no stage")
	for _, s := range f.Stages {
		errs.If(s >= protocol.Stages, "%s is not a stage", s)
	}
	errs.If(!(f.Leave >= 0 && f.Leave <= 1), "leave is %v; it must be from 0 to 1", f.Leave)
	errs.If(!(f.Away >= 0 && f.Away <= 1), "away is %v; it must be from 0 to 1", f.Away)
	errs.If(f.Away > 0 && f.AwayRounds < 1, "away-rounds is %d; a client that goes away is away for at least 1", f.AwayRounds)
	return errors.Join(errs...)
}

type calendar interface {
	// lost returns the stage before whose message client c falls silent in an
	// round; protocol.Stages when it does not.
	lost(c protocol.ClientID, round uint64) protocol.Stage
	// absent reports whether client c has left or is away in a round.
	absent(c protocol.ClientID, round uint64) bool
}

type faultPlan struct {
	Faults
	rounds uint64
	src    entropy.Source
}

func newFaultPlan(f Faults, rounds int, seed uint64) faultPlan {
	return faultPlan{Faults: f, rounds: uint64(rounds), src: simulated.New(seed, "faults")}
}

func (f faultPlan) lost(c protocol.ClientID, round uint64) protocol.Stage {
	if f.absent(c, round) {
		return protocol.StageAdvertise
	}
	if f.Dropout == 0 {
		return protocol.Stages
	}
	u := f.uniforms("dropout", round<<32|uint64(c))
	if u[0] >= f.Dropout {
		return protocol.Stages
	}
	return f.Stages[int(u[1]*float64(len(f.Stages)))]
}

func (f faultPlan) absent(c protocol.ClientID, round uint64) bool {
	if slices.Contains(f.Gone, c) {
		return true
	}
	if f.Leave > 0 {
		if u := f.uniforms("leave", uint64(c)); u[0] < f.Leave && round >= f.when(u[1]) {
			return true
		}
	}
	if f.Away > 0 {
		if u := f.uniforms("away", uint64(c)); u[0] < f.Away {
			from := f.when(u[1])
			return round >= from && round < from+uint64(f.AwayRounds)
		}
	}
	return false
}

// when is the round, of 1 to rounds, that a uniform number picks.
func (f faultPlan) when(u float64) uint64 { return 1 + uint64(u*float64(f.rounds)) }

// uniforms draws two numbers in [0, 1).
func (f faultPlan) uniforms(label string, n uint64) (u [2]float64) {
	var b [16]byte
	if _, err := io.ReadFull(f.src.Stream(label, n), b[:]); err != nil {
		panic(err) // a keystream of a fixed key length does not fail
	}
	for i := range u {
		u[i] = float64(binary.LittleEndian.Uint64(b[8*i:])>>11) / (1 << 53)
	}
	return u
}
