package protocol

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Work is a heavy computation that a role asks for. Do computes from the values it was given and writes no field of the role; the
// role takes in the result when it is stepped with the Done that Do returns. So Do may run on any goroutine while the role receives
// messages, and a result that never comes, or comes too late, changes nothing. Do may change what the role has behind an interface
// (a trainer, a strategy or a sum); the role does not use it meanwhile.
//
// The driver runs Do once and feeds the role what it returns. Works of one role run one
// at a time, in the order in which it asked for them. NewWork makes one.
type Work struct {
	ID uint64
	Do func(Runner) Done
	// Checks says that the work only finds out whether a peer's message is sound. In a simulation
	// it takes no virtual time: the computations of a role take time there.
	Checks bool
}

// Done reports that a Work has run, and carries its result.
type Done struct {
	ID  uint64
	Err error
	// apply has the role take the result in. It is a function since the result's type
	// is known only where the work was asked for; nil where it failed.
	apply func(now time.Time) Effects
}

// Apply passes the result to the role and returns what the role wants done next. Only a
// role's Step calls it. Work that failed has no result.
func (d Done) Apply(now time.Time) Effects {
	if d.apply == nil {
		return Effects{}
	}
	return d.apply(now)
}

// NewWork makes the work that computes a result, and what the role does with it. compute runs on any goroutine; take runs in the
// role's Step, and is left out where there was an error.
func NewWork[T any](id uint64, compute func(Runner) (T, error), take func(now time.Time, result T) Effects) Work {
	return Work{ID: id, Do: func(run Runner) Done {
		result, err := compute(run)
		if err != nil {
			return Done{ID: id, Err: err}
		}
		return Done{ID: id, apply: func(now time.Time) Effects { return take(now, result) }}
	}}
}

// NewDone makes the Done of a Work that NewWork did not make: a Work of NewWork takes more memory,
// which counts if many wait to be run.
func NewDone(id uint64, err error, take func(now time.Time) Effects) Done {
	if err != nil {
		return Done{ID: id, Err: err}
	}
	return Done{ID: id, apply: take}
}

// Workers runs independent computations on a fixed number of goroutines. It is a Runner.
type Workers int

// Each runs f(0) to f(n-1) and returns when all have returned. The order is not fixed; f must write to places of its own only.
func (w Workers) Each(n int, f func(i int)) {
	if int(w) < 2 || n < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	// Chunks keep the counter off the profile; eight a worker even out the load.
	chunk := max(1, n/(int(w)*8))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(int(w), n) {
		wg.Go(func() {
			for {
				end := int(next.Add(int64(chunk)))
				for i := end - chunk; i < min(end, n); i++ {
					f(i)
				}
				if end >= n {
					return
				}
			}
		})
	}
	wg.Wait()
}

// Culprit is a client that has been proved to have broken the protocol, and by what.
type Culprit struct {
	Client ClientID
	Err    error
}

// NoModel stands in place of the final model where no round of a session released anything. It is no model of any algorithm.
var NoModel = []byte("fedsim/no-model/v1\n")

// ErrNothingReleased is returned at the end of a session if no round released anything.
var ErrNothingReleased = errors.New("no round of the session released anything: there is no model. A client is charged for each round in which it sent its masked vector, and for no other (fednode status tells its owner). The log of the aggregator and of the server says why (client-excluded, sum-refused, round-aborted)")
