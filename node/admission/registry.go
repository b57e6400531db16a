package admission

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
)

// Log keeps what a registry must still know after a crash (package store).
type Log interface {
	// Append adds entries, all or none, and returns once they are durable; with none it only
	// tries whether it could. After an error nothing more can be added.
	Append(entries ...[]byte) error
	// Entries calls the function with every entry, in the order in which they were added, until it returns an error.
	Entries(func(entry []byte) error) error
}

// Registry keeps a durable record of who is in a federation. In the aggregator's registry tickets are redeemed. Every other party has a
// registry too, which it updates with the lists that the aggregator shows it, so that it cannot be shown another federation later. Its
// methods may be called from several goroutines.
type Registry struct {
	federation atomic.Pointer[Federation] // in the latest epoch that is known
	line       line                       // of enrolments that wait to be written

	// writing is held by a writer until the change is on disk. A reader does not take it, so that it never waits for a disk.
	writing   sync.Mutex
	log       Log
	reopen    func() (Log, error) // nil: a log that failed stays so
	failed    error               // of the log; nil while it takes entries
	logged    int                 // epochs of the federation that are in the log
	unwritten []byte              // revocations that hold although the log failed; nil: none

	mu sync.RWMutex // of what follows; who changes it holds writing, too
	state
	view *view // of the state, as it was last made or taken over; nil: none was
}

// state holds the parties that are in and have not been revoked.
type state struct {
	revocations *Revocations
	barred      barred
	places      map[Place]*Enrolment // which are not changed any more
	identities  map[PublicKey]Place
	version     uint64 // grows with each change
}

func newState() state {
	return state{barred: newBarred(nil, nil), places: make(map[Place]*Enrolment), identities: make(map[PublicKey]Place)}
}

// OpenRegistry reads a registry from its log, which is empty for a new one, and verifies all that is in it.
func OpenRegistry(f *Federation, log Log) (*Registry, error) {
	if err := f.Verify(f.Operator); err != nil {
		return nil, err
	}
	r := &Registry{log: log, state: newState()}
	founded := *f
	founded.Epochs = nil // the log has what is known, in order
	r.federation.Store(&founded)
	n := 0
	err := log.Entries(func(entry []byte) error {
		n++
		if err := r.replay(entry); err != nil {
			return fmt.Errorf("entry %d of the registry: %w", n, err)
		}
		return nil
	})
	if err == nil {
		err = r.catchUp(f)
	}
	return sound(r, err)
}

// catchUp takes over epochs that the log does not have. They are written with the next entry.
func (r *Registry) catchUp(f *Federation) error {
	switch err := f.continues(r.Federation()); {
	case errors.Is(err, ErrOutdated), err == nil && r.handedOver(f) != nil: // the list that comes with it has the epoch too
		return nil
	case err != nil:
		return err
	}
	if len(f.Epochs) > len(r.Federation().Epochs) {
		own := *f
		r.federation.Store(&own)
		r.retire(own.Retired())
	}
	return nil
}

// replay takes an entry: the text of an enrolment or of revocations.
func (r *Registry) replay(entry []byte) error {
	kind, _, err := open(entry)
	switch {
	case err != nil:
		return err
	case kind == kindFederation:
		return r.replayFederation(entry)
	case kind == kindEnrolment:
		e, err := ParseEnrolment(entry)
		if err == nil {
			err = e.Verify(r.Federation())
		}
		if err == nil && !r.has(e) { // else the operator's next key has signed it, too
			err = r.admit(e)
		}
		if err == nil {
			r.enter(e)
		}
		return err
	default:
		v, err := ParseRevocations(entry)
		if err == nil {
			err = cmp.Or(v.Verify(r.Federation()), v.Follows(r.revocations))
		}
		if err == nil {
			r.revoke(v)
		}
		return err
	}
}

func (r *Registry) replayFederation(entry []byte) error {
	f, err := ParseFederation(entry)
	if err == nil {
		err = cmp.Or(r.Federation().own(f.Hash(), "federation"), f.continues(r.Federation()))
	}
	if err != nil {
		return err
	}
	if len(f.Epochs) == len(r.Federation().Epochs) {
		return fmt.Errorf("%w: the federation without another epoch", ErrMalformed)
	}
	r.federation.Store(f)
	r.retire(f.Retired())
	r.logged = len(f.Epochs)
	return nil
}

// Revoke applies the operator's newest revocations. It returns the enrolments that they revoked, also beside an error; every connection to
// these parties is to be closed. Once it returns without an error, that is durable. Revocations that cannot be written hold all the same,
// until the process ends, and are written with the next entry. Repeating the same document is no error. An older document is refused with
// ErrOutdated, and a document without an earlier entry with ErrForgotten.
func (r *Registry) Revoke(v *Revocations) ([]Enrolment, error) {
	if v == nil {
		return nil, fmt.Errorf("%w: no revocations", ErrMalformed)
	}
	if err := v.Verify(r.Federation()); err != nil {
		return nil, err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := v.Follows(r.revocations); err != nil {
		return nil, err
	}
	var out []Enrolment
	if v.Serial != r.revocations.serial() {
		text, err := v.Encode()
		if err != nil {
			return nil, err
		}
		locked.Do(&r.mu, func() { out = r.revoke(v) })
		r.unwritten = text // older ones, that were not written either, are in it
	}
	if r.unwritten == nil {
		return nil, nil
	}
	err := r.recover() // which writes them, if it does anything
	if err == nil && r.unwritten != nil {
		err = r.write()
	}
	if err != nil {
		return out, fmt.Errorf("revocations %d, which hold until this process ends: %w", v.Serial, err)
	}
	return out, nil
}

// write adds entries to the log, behind revocations that are not in it yet: what comes
// after them may be right because of them only. The caller holds writing.
func (r *Registry) write(entries ...[]byte) error {
	if r.unwritten != nil {
		entries = append([][]byte{r.unwritten}, entries...)
	}
	epochs := len(r.Federation().Epochs)
	if epochs > r.logged {
		text, err := r.Federation().Encode()
		if err != nil {
			return err
		}
		entries = append([][]byte{text}, entries...)
	}
	if err := r.log.Append(entries...); err != nil {
		r.failed = fmt.Errorf("%w: %w", ErrUnwritten, err)
		return r.failed
	}
	r.unwritten, r.failed, r.logged = nil, nil, max(r.logged, epochs)
	return nil
}

// admit says why a verified enrolment cannot be taken, whatever the time.
func (s *state) admit(e *Enrolment) error {
	if err := s.barred.check(e); err != nil {
		return err
	}
	if held, ok := s.places[e.Ticket.Place]; ok {
		if held.Ticket.same(&e.Ticket) {
			return fmt.Errorf("%w: the %s is %s", ErrRedeemed, e.Ticket.Place, held.Identity)
		}
		return fmt.Errorf("%w: the %s is %s, with ticket %d", ErrHeld, e.Ticket.Place, held.Identity, held.Ticket.Serial)
	}
	if p, ok := s.identities[e.Identity]; ok {
		return fmt.Errorf("%w: %s is the %s", ErrIdentityUsed, e.Identity, p)
	}
	return nil
}

// has says whether an enrolment, or another that means the same, is in.
func (s *state) has(e *Enrolment) bool {
	held, ok := s.places[e.Ticket.Place]
	return ok && held.same(e)
}

// enter takes an enrolment. From then on it must not be changed.
func (s *state) enter(e *Enrolment) {
	s.version++
	s.places[e.Ticket.Place] = e
	s.identities[e.Identity] = e.Ticket.Place
}

// revoke takes newer revocations and returns the enrolments that they revoke, in order.
func (s *state) revoke(v *Revocations) []Enrolment {
	s.version++
	s.revocations, s.barred = v.clone(), newBarred(v, s.barred.retired)
	return s.sweep()
}

// sweep removes the enrolments that are barred, and returns them in order.
func (s *state) sweep() []Enrolment {
	var out []Enrolment
	for _, e := range s.list() {
		if s.barred.check(e) != nil {
			out = append(out, *e)
			delete(s.places, e.Ticket.Place)
			delete(s.identities, e.Identity)
		}
	}
	return out
}

// list returns the enrolments that are in, in the order of their places.
func (s *state) list() []*Enrolment {
	return slices.SortedFunc(maps.Values(s.places), func(a, b *Enrolment) int { return a.Ticket.Place.compare(b.Ticket.Place) })
}

// enrolments is list with copies.
func (s *state) enrolments() []Enrolment {
	return lists.Map(s.list(), func(e *Enrolment) Enrolment { return *e })
}

// ErrUnwritten is wrapped if the registry's log takes no entries, for example because the disk is
// full. Enrolments that were acknowledged before are safe. No party can be enrolled meanwhile.
var ErrUnwritten = errors.New("admission: the registry cannot be written; see to the disk")

// Reopens tells the registry how to open its log again. The process then needs no restart after a write that failed: the registry opens the
// log before each write, and when Check is called. The registry closes the logs that it opens.
func (r *Registry) Reopens(open func() (Log, error)) {
	locked.Do(&r.writing, func() { r.reopen = open })
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
	return locked.Get(&r.writing, func() error { return closed(r.log) })
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
		locked.Do(&r.mu, func() { r.state, r.log = *next, log })
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
