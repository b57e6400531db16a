package protocol

import "time"

// Work is a heavy computation that a role asks for. Do computes from values that it
// was given and writes no field of the role: its result travels in the Done that it
// returns, and the role takes that in when it is stepped with it. So Do may run on any
// goroutine while the role hears messages; a result that never comes, or comes
// too late, changes nothing; and nobody has to know which fields to leave alone
// until then. What the role has behind an interface, a trainer, a strategy or a sum, the
// computation may change; the role asks nothing else of it meanwhile.
//
// The driver runs Do once and feeds the role what it returns. Works of one role run
// one at a time, in the order in which it asked for them. NewWork makes one.
type Work struct {
	ID uint64
	Do func(Runner) Done
}

// Done reports that a Work has run, and carries its result.
type Done struct {
	ID  uint64
	Err error
	// apply has the role take the result in. It is a function since the result's type
	// is known only where the work was asked for; nil where it failed.
	apply func(now time.Time) Effects
}

// Apply has the role take the result in, and is for its Step: what the role wants done
// after that is returned. A work that failed has no result.
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
