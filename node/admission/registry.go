package admission

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Log keeps what a registry must still know after a crash (package store).
type Log interface {
	// Append adds entries, all or none, and returns once they are durable; with none it only
	// tries whether it could. After an error nothing more can be added.
	Append(entries ...[]byte) error
	// Entries calls the function with every entry, in the order in which they were added,
	// until it returns an error.
	Entries(func(entry []byte) error) error
}

// Registry keeps a durable record of who is in a federation. In the aggregator's registry
// tickets are redeemed. Every other party has a registry too, which it updates with the
// lists that the aggregator shows it, so that it cannot be shown another federation
// later. Its methods may be called from several goroutines.
type Registry struct {
	federation Federation
	hash       Hash
	log        Log
	verified   *Verified // nil: it verifies everything itself

	mu sync.RWMutex
	state
	reopen    func() (Log, error) // nil: a log that failed stays so
	failed    error               // of the log; nil while it takes entries
	unwritten []byte              // revocations that hold although the log failed; nil: none
	text      []byte              // of the list; nil before Text was first called
	textOf    uint64              // the state's version that it is of
}

// state is who is in by now. Whoever was revoked is not.
type state struct {
	revocations *Revocations
	barred      barred
	places      map[Place]Enrolment
	identities  map[PublicKey]Place
	version     uint64 // grows with each change
}

// OpenRegistry reads a registry from its log, which is empty for a new one, and
// verifies all that is in it.
func OpenRegistry(f *Federation, log Log) (*Registry, error) {
	if err := f.Verify(f.Operator); err != nil {
		return nil, err
	}
	r := &Registry{federation: *f, hash: f.Hash(), log: log,
		state: state{barred: newBarred(nil), places: make(map[Place]Enrolment), identities: make(map[PublicKey]Place)}}
	n := 0
	err := log.Entries(func(entry []byte) error {
		n++
		if err := r.replay(entry); err != nil {
			return fmt.Errorf("entry %d of the registry: %w", n, err)
		}
		return nil
	})
	return sound(r, err)
}

// replay takes an entry: the text of an enrolment or of revocations.
func (r *Registry) replay(entry []byte) error {
	kind, _, err := open(entry)
	switch {
	case err != nil:
		return err
	case kind == kindEnrolment:
		e, err := ParseEnrolment(entry)
		if err == nil {
			err = e.Verify(&r.federation)
		}
		if err == nil {
			err = r.admit(e)
		}
		if err == nil {
			r.enter(e)
		}
		return err
	default:
		v, err := ParseRevocations(entry)
		if err == nil {
			err = v.Verify(&r.federation)
		}
		if err == nil {
			err = v.Follows(r.revocations)
		}
		if err == nil {
			r.revoke(v)
		}
		return err
	}
}

// Redeem records an enrolment: the first to redeem a ticket has the place until the
// operator revokes it. Once it returns nil, that is durable. Repeating it is no error,
// also after the ticket has expired. It is refused with ErrExpired (now is the time
// here), ErrRedeemed, ErrHeld, ErrIdentityUsed, ErrRevoked, ErrSignature, ErrFederation
// or ErrMalformed; the error may be sent to the redeeming party, since everything in it
// is public.
func (r *Registry) Redeem(now time.Time, e *Enrolment) error {
	if err := e.Verify(&r.federation); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.recover(); err != nil {
		return fmt.Errorf("enrolling the %s: %w", e.Ticket.Place, err)
	}
	if held, ok := r.places[e.Ticket.Place]; ok && held.same(e) {
		return nil
	}
	if err := r.admit(e); err != nil {
		return err
	}
	if end := e.Ticket.NotAfter; now.After(end.Add(ClockSkew)) {
		return fmt.Errorf("%w: the %s's was good until %v", ErrExpired, e.Ticket.Place, end)
	}
	text, err := e.Encode()
	if err == nil {
		err = r.write(text)
	}
	if err != nil {
		return fmt.Errorf("enrolling the %s: %w", e.Ticket.Place, err)
	}
	r.enter(e)
	return nil
}

// Revoke applies the operator's newest revocations. It returns the enrolments that they
// revoked, also beside an error; every connection to these parties is to be closed. Once
// it returns without an error, that is durable. Revocations that cannot be written hold
// all the same, until the process ends, and are written with the next entry. Repeating
// the same document is no error; an older one is refused with ErrOutdated, one that lacks
// an earlier entry with ErrForgotten.
func (r *Registry) Revoke(v *Revocations) ([]Enrolment, error) {
	if v == nil {
		return nil, fmt.Errorf("%w: no revocations", ErrMalformed)
	}
	if err := v.Verify(&r.federation); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := v.Follows(r.revocations); err != nil {
		return nil, err
	}
	var out []Enrolment
	if v.Serial != r.revocations.serial() {
		text, err := v.Encode()
		if err != nil {
			return nil, err
		}
		out, r.unwritten = r.revoke(v), text // older ones, that were not written either, are in it
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
// after them may be right because of them only.
func (r *Registry) write(entries ...[]byte) error {
	if r.unwritten != nil {
		entries = append([][]byte{r.unwritten}, entries...)
	}
	if err := r.log.Append(entries...); err != nil {
		r.failed = fmt.Errorf("%w: %w", ErrUnwritten, err)
		return r.failed
	}
	r.unwritten, r.failed = nil, nil
	return nil
}

// Update applies a list that another party keeps: a party applies that of its aggregator,
// an aggregator that lost its registry applies that of a party. The list must have every
// party known so far, except those that newer revocations revoke, in the same places with
// the same keys (ErrForgotten, ErrRedeemed, ErrHeld), and its revocations must be the
// newest that are known (ErrOutdated). It returns the enrolments that were revoked. A
// list that is refused changes nothing.
//
// An aggregator can thus leave a party off the list at first, or withhold revocations
// that the party has not got from the operator (Revoke), but not go back on what it has
// shown. Masks, and in active mode signatures, are bound to the keys on the list: parties
// that were shown different lists do not get a sum.
func (r *Registry) Update(l *List) ([]Enrolment, error) {
	if err := r.federation.own(l.Federation.Hash(), "list"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.recover(); err != nil {
		return nil, fmt.Errorf("taking over the enrolment list: %w", err)
	}
	held := func(e *Enrolment) bool {
		mine, ok := r.places[e.Ticket.Place]
		return ok && mine.same(e)
	}
	err := l.verify(r.federation.Operator, func(e *Enrolment) bool { return held(e) || r.verified.has(r.hash, e) })
	if err != nil {
		return nil, err
	}
	for i := range l.Enrolments {
		if e := &l.Enrolments[i]; !held(e) { // or its signatures were passed over
			r.verified.add(e)
		}
	}
	if err = l.Revocations.Follows(r.revocations); err != nil {
		return nil, err
	}
	next := state{places: maps.Clone(r.places), identities: maps.Clone(r.identities), revocations: r.revocations, barred: r.barred, version: r.version}
	entries, out, err := next.update(l)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		if err = r.write(entries...); err != nil {
			return nil, fmt.Errorf("taking over the enrolment list: %w", err)
		}
	}
	r.state = next
	return out, nil
}

// update takes a verified list, and gives what is new in it as entries of a log.
func (s *state) update(l *List) (entries [][]byte, out []Enrolment, err error) {
	if l.Revocations.serial() > s.revocations.serial() {
		text, err := l.Revocations.Encode()
		if err != nil {
			return nil, nil, err
		}
		entries, out = append(entries, text), s.revoke(l.Revocations)
	}
	for i := range l.Enrolments {
		e := &l.Enrolments[i]
		if held, ok := s.places[e.Ticket.Place]; ok && held.same(e) {
			continue
		}
		if err := s.admit(e); err != nil {
			return nil, nil, fmt.Errorf("the enrolment list: %w", err)
		}
		text, err := e.Encode()
		if err != nil {
			return nil, nil, err
		}
		entries = append(entries, text)
		s.enter(e)
	}
	// Nobody is there twice, so whoever is in and not on the list is one too many.
	if len(s.places) > len(l.Enrolments) {
		return nil, nil, s.missing(l)
	}
	return entries, out, nil
}

// missing names who should be on the list.
func (s *state) missing(l *List) error {
	for _, e := range s.list() {
		if _, ok := l.Holder(e.Ticket.Place); !ok {
			return fmt.Errorf("%w: the list lacks the %s", ErrForgotten, e.Ticket.Place)
		}
	}
	return nil
}

// admit says why a verified enrolment cannot be taken, whatever the time.
func (s *state) admit(e *Enrolment) error {
	if err := s.barred.check(e); err != nil {
		return err
	}
	if held, ok := s.places[e.Ticket.Place]; ok {
		if held.Ticket.Hash() == e.Ticket.Hash() {
			return fmt.Errorf("%w: the %s is %s", ErrRedeemed, e.Ticket.Place, held.Identity)
		}
		return fmt.Errorf("%w: the %s is %s, with ticket %d", ErrHeld, e.Ticket.Place, held.Identity, held.Ticket.Serial)
	}
	if p, ok := s.identities[e.Identity]; ok {
		return fmt.Errorf("%w: %s is the %s", ErrIdentityUsed, e.Identity, p)
	}
	return nil
}

func (s *state) enter(e *Enrolment) {
	s.version++
	s.places[e.Ticket.Place] = *e
	s.identities[e.Identity] = e.Ticket.Place
}

// revoke takes newer revocations and returns the enrolments that they revoke, in order.
func (s *state) revoke(v *Revocations) []Enrolment {
	s.version++
	s.revocations, s.barred = v.clone(), newBarred(v)
	var out []Enrolment
	for _, e := range s.list() {
		if s.barred.check(&e) != nil {
			out = append(out, e)
			delete(s.places, e.Ticket.Place)
			delete(s.identities, e.Identity)
		}
	}
	return out
}

// list is everybody who is in, in order.
func (s *state) list() []Enrolment {
	return slices.SortedFunc(maps.Values(s.places), func(a, b Enrolment) int { return a.Ticket.Place.compare(b.Ticket.Place) })
}

// Share lets this registry and other registries of the process skip verifying what one of
// them has verified already. It is called before the first update.
func (r *Registry) Share(v *Verified) { r.verified = v }

// Lookup says which place an identity has now; false for an identity that is not
// enrolled. A connection gater uses it.
func (r *Registry) Lookup(identity PublicKey) (Place, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.identities[identity]
	return p, ok
}

// Revocations are the newest known revocations, nil if there are none.
func (r *Registry) Revocations() *Revocations {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.revocations.clone()
}

// List is the present enrolment list.
func (r *Registry) List() *List {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.listing()
}

// Text is the encoded list. It is encoded once while the list does not change, so that it
// can be sent to many parties; it must not be changed.
func (r *Registry) Text() ([]byte, error) {
	r.mu.RLock()
	text, version := r.text, r.version
	if text != nil && r.textOf == version {
		r.mu.RUnlock()
		return text, nil
	}
	l := r.listing()
	r.mu.RUnlock()
	text, err := l.Encode() // takes long, and nobody who connects need wait for it
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == nil || version > r.textOf {
		r.text, r.textOf = text, version
	}
	return text, nil
}

// listing is the list. The caller holds mu.
func (r *Registry) listing() *List {
	return &List{Federation: r.federation, Revocations: r.revocations.clone(), Enrolments: r.list()}
}
