package admission

import (
	"errors"
	"fmt"
	"io"
)

// ErrUnwritten is wrapped if the registry's log takes no entries, for example because the disk is
// full. Enrolments that were acknowledged before are safe. No party can be enrolled meanwhile.
var ErrUnwritten = errors.New("admission: the registry cannot be written; see to the disk")

// Reopens tells the registry how to open its log again. The process then needs no restart after a
// write that failed: the registry opens the log before each write, and when Check is called. The
// registry closes the logs that it opens.
func (r *Registry) Reopens(open func() (Log, error)) {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.reopen = open
}

// Check returns ErrUnwritten if the last write failed and no other would succeed by now.
func (r *Registry) Check() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.reopen == nil {
		return r.failed
	}
	return r.recover()
}

// Close closes the log, if it can be closed.
func (r *Registry) Close() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return closed(r.log)
}

func closed(l Log) error {
	if c, ok := l.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// recover opens a log that has failed again. Whether the entries of the write that failed
// are in it is only known then. The caller holds writing.
func (r *Registry) recover() error {
	if r.failed == nil || r.reopen == nil {
		return nil // the next write shows
	}
	log, err := r.reopen()
	if err != nil {
		return fmt.Errorf("%w; opening it again: %w", r.failed, err)
	}
	next, err := r.reread(log)
	if err == nil {
		r.mu.Lock()
		r.state, r.log = *next, log
		r.mu.Unlock()
		if err = r.write(); err == nil { // revocations that it lacks, or nothing: a trial
			return nil
		}
	}
	return errors.Join(err, closed(log))
}

// reread is the state by a log that was opened again, which has all that this registry has
// acknowledged, and by revocations that hold although they could not be written.
func (r *Registry) reread(log Log) (*state, error) {
	again, err := OpenRegistry(r.Federation(), log)
	if err != nil {
		return nil, err
	}
	next := again.state
	if r.unwritten != nil {
		v, err := ParseRevocations(r.unwritten)
		if err != nil {
			return nil, err
		}
		next.revoke(v)
	}
	for place, e := range r.places {
		if found, ok := next.places[place]; !ok || !found.same(e) {
			return nil, fmt.Errorf("%w: the registry on disk lacks the %s; was it replaced?", ErrForgotten, place)
		}
	}
	r.logged = again.logged
	next.version += r.version + 1 // what was encoded before is out of date
	return &next, nil
}
