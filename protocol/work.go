package protocol

import "time"

// Work is a heavy computation that a role asks for. Do computes from the values it was
// given and writes no field of the role; the role takes in the result when it is stepped
// with the Done that Do returns. So Do may run on any goroutine while the role receives
// messages, and a result that never comes, or comes too late, changes nothing. Do may
// change what the role has behind an interface (a trainer, a strategy or a sum); the role
// does not use it meanwhile.
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

// NewWork makes the work that computes a result, and what the role does with it.
// compute runs on any goroutine; take runs in the role's Step, and is left out
// where there was an error.
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
