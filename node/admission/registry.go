package admission

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/protocol"
)

// Log is an append-only list of entries, which keeps what must still be known after a crash (package store). Its methods are for one
// goroutine at a time.
type Log interface {
	// Append adds entries, all or none, and returns once they are durable; with none it only tries whether it could. After an error
	// it is not known whether the entries are durable, so the log closes; opening it again shows which entries are there.
	Append(entries ...[]byte) error
	// Entries calls the function with every entry, in the order in which they were added, until it returns an error. An entry is valid
	// until the function returns.
	Entries(func(entry []byte) error) error
	// Close closes the log. Closing twice is no error.
	Close() error
}

// Registry keeps a durable record of who is in a federation. In the aggregator's registry tickets are redeemed. Every other party has a
// registry too, which it updates with the lists that the aggregator shows it, so that it cannot be shown another federation later. Its
// methods may be called from several goroutines.
type Registry struct {
	now atomic.Pointer[snapshot]

	// writing is held by a writer until the change is on disk. A reader does not take it, so that it never waits for a disk.
	writing   sync.Mutex
	log       Log
	reopen    func() (Log, error) // nil: a log that failed stays so
	failed    error               // of the log; nil while it takes entries
	unwritten [][]byte            // epochs and revocations that hold although the log lacks them
}

// OpenRegistry reads a registry from its log, which is empty for a new one, and verifies all that is in it. Epochs that the log does not
// have are written with the next entry.
func OpenRegistry(f *Federation, log Log) (*Registry, error) {
	if err := f.Verify(f.Operator); err != nil {
		return nil, err
	}
	founded := *f
	founded.Epochs = nil // the log has what is known, in order
	s, err := newSnapshot(&List{Federation: founded, Enrolments: []*Enrolment{}})
	if err == nil {
		s, err = s.replay(log)
	}
	if err != nil {
		return nil, err
	}
	r := &Registry{log: log}
	later := s.adding()
	later.Federation = *f
	next, news, _, err := s.next(later, false)
	switch {
	case errors.Is(err, ErrOutdated), err == nil && s.handedOver(f) != nil: // the list that comes with it has the epoch too
		next, news = s, nil
	case err != nil:
		return nil, err
	}
	r.now.Store(next)
	r.unwritten, err = encodeAll(news)
	return sound(r, err)
}

// write adds documents to the log, behind entries that it lacks: what comes after them may be right because of them only. Then
// it has readers see the snapshot. The caller holds writing.
func (r *Registry) write(next *snapshot, news ...document) error {
	entries, err := encodeAll(news)
	if err != nil {
		return err
	}
	if entries = append(slices.Clip(r.unwritten), entries...); len(entries) > 0 || r.failed != nil {
		if err = r.log.Append(entries...); err != nil {
			r.failed = fmt.Errorf("%w: %w", ErrUnwritten, err)
			return r.failed
		}
	}
	r.unwritten, r.failed = nil, nil
	r.now.Store(next)
	return nil
}

// Redeem records an enrolment: the first to redeem a ticket has the place until the operator revokes it. Once it returns nil, that is
// durable. Repeating it is no error, also after the ticket has expired. It is refused with ErrExpired (now is the time here), ErrRedeemed,
// ErrHeld, ErrIdentityUsed, ErrRevoked, ErrSignature, ErrFederation or ErrMalformed; the error may be sent to the redeeming party, since
// everything in it is public.
func (r *Registry) Redeem(now time.Time, e *Enrolment) error {
	if err := e.Verify(r.Federation()); err != nil {
		return err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	err := r.recover()
	if err == nil {
		s := r.now.Load()
		own := *e
		next, news, _, refused := s.next(s.adding(&own), false)
		if refused != nil || len(news) == 0 {
			return refused
		}
		if end := e.Ticket.NotAfter; now.After(end.Add(clockSkew)) {
			return fmt.Errorf("%w: the %s's was good until %v", ErrExpired, e.Ticket.Place, end)
		}
		err = r.write(next, news...)
	}
	if err != nil {
		return fmt.Errorf("enrolling the %s: %w", e.Ticket.Place, err)
	}
	return nil
}

// clockSkew is the lead that the clock of the registry may have over the operator's: the registry
// accepts a ticket for this long after it expires.
const clockSkew = 5 * time.Minute

// Revoke applies the operator's newest revocations. It returns the enrolments that they revoked, also beside an error; every connection to
// these parties is to be closed. Once it returns without an error, that is durable. Revocations that cannot be written hold all the same,
// until the process ends, and are written with the next entry. Repeating the same document is no error. An older document is refused with
// ErrOutdated, and a document without an earlier entry with ErrForgotten.
func (r *Registry) Revoke(v *Revocations) ([]*Enrolment, error) {
	if v == nil {
		return nil, fmt.Errorf("%w: no revocations", ErrMalformed)
	}
	if err := v.Verify(r.Federation()); err != nil {
		return nil, err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	l := r.now.Load().adding()
	l.Revocations = v
	next, news, out, err := r.now.Load().next(l, false)
	if err != nil {
		return nil, err
	}
	entries, err := encodeAll(news)
	if err != nil {
		return nil, err
	}
	r.now.Store(next)
	r.unwritten = append(r.unwritten, entries...)
	if err = r.recover(); err == nil { // which writes them, if it does anything
		err = r.write(r.now.Load())
	}
	if err != nil {
		return out, fmt.Errorf("revocations %d, which hold until this process ends: %w", v.Serial, err)
	}
	return out, nil
}

// Grow takes over the epochs of the operator's newest federation. It returns the enrolments at places that were given up; every connection
// to these parties is to be closed. Once it returns without an error, that is durable. An error changes nothing.
func (r *Registry) Grow(f *Federation) ([]*Enrolment, error) {
	if err := cmp.Or(f.Verify(r.Federation().Operator), r.Federation().own(f.Hash(), "federation")); err != nil {
		return nil, err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.recover(); err != nil {
		return nil, err
	}
	s := r.now.Load()
	l := s.adding()
	l.Federation = *f
	next, news, out, err := s.next(l, false)
	if err == nil {
		err = s.handedOver(f)
	}
	if err == nil {
		err = r.write(next, news...)
	}
	if err != nil {
		return nil, fmt.Errorf("epoch %d of the federation: %w", len(f.Epochs), err)
	}
	return out, nil
}

// Take applies a list that another party keeps, in its text: see Update. It returns the list, which is shared and must not be changed, and
// the enrolments that were revoked. Of a text with what was added to a list, that is the whole list. A text that was the last to be taken
// over is neither parsed nor looked through again, as long as nothing has changed since.
func (r *Registry) Take(text []byte) (*List, []*Enrolment, error) {
	digest := Hash(sha256.Sum256(text))
	if s := r.now.Load(); s.shown != nil && s.digest == digest {
		return s.shown, nil, nil
	}
	l, err := ParseList(text)
	if err != nil {
		return nil, nil, err
	}
	return r.update(l, digest)
}

// Update applies a list that another party keeps. A party applies its aggregator's list; an aggregator that lost its registry applies a
// party's list. The list must have every known party in the same place with the same key, except parties that newer revocations revoke
// (ErrForgotten, ErrRedeemed, ErrHeld). Its revocations must be the newest that are known (ErrOutdated). Update returns the enrolments that
// were revoked. A list that is refused changes nothing. A part of a list says nothing of other parties.
//
// An aggregator can thus leave out a party or revocations at first, but not go back on what it has shown.
func (r *Registry) Update(l *List) ([]*Enrolment, error) {
	_, out, err := r.update(l, Hash{})
	return out, err
}

// update applies a list, and returns the list that is known then. A list with the digest of its text must not be changed by any caller:
// it is known as it is.
func (r *Registry) update(l *List, digest Hash) (*List, []*Enrolment, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.recover(); err != nil {
		return nil, nil, fmt.Errorf("taking over the enrolment list: %w", err)
	}
	s := r.now.Load()
	anew := l.Federation.Signer() != s.list.Federation.Signer() // the earlier signatures count no more
	known := func(e *Enrolment) bool { return !anew && s.list.holds(e) }
	if err := cmp.Or(s.list.Federation.own(l.Federation.Hash(), "list"), l.verify(s.list.Federation.Operator, known)); err != nil {
		return nil, nil, err
	}
	next, news, out, err := s.next(l, anew)
	if err == nil {
		if digest != (Hash{}) && !l.Added {
			next.shown, next.digest = l, digest
		}
		err = r.write(next, news...)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("taking over the enrolment list: %w", err)
	}
	return cmp.Or(next.shown, next.list), out, nil
}

// Restore takes parties over from lists that others keep, for an aggregator that has lost its registry. Each list may lack some parties. The
// result has the latest epoch, the newest revocations, and every enrolment of any list that these do not rule out. Two lists with different
// parties in one place are refused (ErrHeld): the operator revokes one of them first. Restore returns how many parties there are now. A list
// that is refused changes nothing.
func (r *Registry) Restore(lists ...*List) (int, error) {
	merged, err := merge(r.Federation().Operator, append([]*List{r.List()}, lists...))
	if err == nil {
		_, err = r.Update(merged)
	}
	if err != nil {
		return 0, err
	}
	return len(merged.Enrolments), nil
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

// Close closes the log.
func (r *Registry) Close() error {
	return locked.Get(&r.writing, func() error { return r.log.Close() })
}

// recover opens a log that has failed again. Whether the entries of the write that failed are in it is only known then. It must have all that
// this registry has acknowledged. The caller holds writing.
func (r *Registry) recover() error {
	if r.failed == nil || r.reopen == nil {
		return nil // the next write shows
	}
	log, err := r.reopen()
	if err != nil {
		return fmt.Errorf("%w; opening it again: %w", r.failed, err)
	}
	again, err := OpenRegistry(r.Federation(), log)
	if err == nil {
		s, known := again.now.Load(), r.List()
		l := s.adding()
		if known.Revocations.serial() > l.Revocations.serial() { // they hold although they could not be written
			l.Revocations = known.Revocations
		}
		next, news, _, failed := s.next(l, false)
		if err = failed; err == nil {
			err = next.list.has(known, "the registry on disk")
		}
		if err == nil {
			r.log, r.unwritten = log, again.unwritten
			err = r.write(next, news...) // which at least tries
		}
		if err == nil {
			return nil
		}
	}
	return errors.Join(err, log.Close())
}

// Federation is the federation in the latest epoch that the registry knows. It must not be changed.
func (r *Registry) Federation() *Federation { return &r.List().Federation }

// Lookup says which place an identity has now; false for an identity that is not enrolled. A connection gater uses it.
func (r *Registry) Lookup(identity PublicKey) (Place, bool) {
	p, ok := r.now.Load().identities[identity]
	return p, ok
}

// Holder is the identity that has a place now.
func (r *Registry) Holder(p Place) (PublicKey, bool) { return r.List().Holder(p) }

// Enrolled is the number of parties that are in now.
func (r *Registry) Enrolled() int { return len(r.List().Enrolments) }

// Revocations are the newest known revocations, nil if there are none.
func (r *Registry) Revocations() *Revocations { return r.List().Revocations.clone() }

// NextSerial returns the next serial of a place by the newest known revocations.
func (r *Registry) NextSerial(p Place) uint32 { return r.now.Load().barred.serials[p] + 1 }

// List is the present enrolment list, which is shared and must not be changed.
func (r *Registry) List() *List { return r.now.Load().list }

// Current returns the present enrolment list, which is shared and must not be changed, and the digest of its text. If the list was taken
// over (Take), the digest is of the text that was received.
func (r *Registry) Current() (*List, Hash, error) {
	s := r.now.Load()
	if s.shown != nil {
		return s.shown, s.digest, nil
	}
	text := s.text()
	return s.list, text.digest, text.err
}

// Excerpt is the part of the list that the holder of a place needs beside it: the server, the aggregator and
// the place itself. It returns its text and the SHA-256 of that.
func (r *Registry) Excerpt(p Place) ([]byte, Hash, error) {
	s := r.now.Load()
	part := *s.list
	if len(part.Enrolments) > 0 { // a list of no party has no part
		part.Enrolments, part.Part = []*Enrolment{}, &Part{Enrolled: len(s.list.Enrolments), Positions: []int{}}
		for _, place := range []Place{ServerPlace, AggregatorPlace, p} {
			if i, found := s.list.at(place); found {
				part.Enrolments, part.Part.Positions = append(part.Enrolments, s.list.Enrolments[i]), append(part.Part.Positions, i)
			}
		}
		part.Part.Proof = lists.Map(s.tree().Prove(part.Part.Positions), func(h protocol.Hash) Hash { return Hash(h) })
	}
	text, err := part.Encode()
	return text, sha256.Sum256(text), err
}

// Since is the list for a party that has an older list, nil: none. It is the text of what was added to that list if
// nothing else has changed, else of the whole list, and nil if nothing has changed.
func (r *Registry) Since(old *List) (now *List, text []byte, err error) {
	s := r.now.Load()
	if old == nil || s.list.Federation.Latest() != old.Federation.Latest() || s.list.Revocations.serial() != old.Revocations.serial() {
		whole := s.text()
		return s.list, whole.bytes, whole.err
	}
	added, k := s.adding(), 0
	for _, e := range s.list.Enrolments {
		if k < len(old.Enrolments) && old.Enrolments[k].same(e) {
			k++
		} else {
			added.Enrolments = append(added.Enrolments, e)
		}
	}
	if len(added.Enrolments) > 0 {
		text, err = added.Encode()
	}
	return s.list, text, err
}

// Text is the encoded list and its SHA-256. It is encoded once while the list does not change, so that it
// can be sent to many parties; it must not be changed.
func (r *Registry) Text() ([]byte, Hash, error) {
	text := r.now.Load().text()
	return text.bytes, text.digest, text.err
}
