package admission

import (
	"crypto/sha256"
	"fmt"
	"maps"
)

// Take applies a list that another party keeps, in its text: see Update. It returns the list, which is
// shared and must not be changed, and the enrolments that were revoked. Of a text with what was added to a list,
// that is the whole list. A text that was the last to be
// taken over is neither parsed nor looked through again, as long as nothing has changed
// since.
func (r *Registry) Take(text []byte) (*List, []Enrolment, error) {
	digest := Hash(sha256.Sum256(text))
	if v := r.present(func(v *view) bool { return v.digest == digest }); v != nil {
		return v.list, nil, nil
	}
	l, err := ParseList(text)
	if err != nil {
		return nil, nil, err
	}
	if l.Added { // the digest is not of the whole list
		revoked, failed := r.Update(l)
		return r.List(), revoked, failed
	}
	out, err := r.update(l, &digest)
	if err != nil {
		return nil, nil, err
	}
	return l, out, nil
}

// Update applies a list that another party keeps. A party applies its aggregator's list; an
// aggregator that lost its registry applies a party's list. The list must have every known party in
// the same place with the same key, except parties that newer revocations revoke (ErrForgotten,
// ErrRedeemed, ErrHeld). Its revocations must be the newest that are known (ErrOutdated). Update
// returns the enrolments that were revoked. A list that is refused changes nothing.
//
// A part of a list says nothing of other parties. In semi-honest mode a client needs no more, since it takes the others' keys
// on the aggregator's word there.
//
// An aggregator can thus leave a party off the list at first, or withhold revocations that the
// party has not got from the operator (Revoke), but not go back on what it has shown. Masks, and in
// active mode signatures, are bound to the keys on the list: parties that were shown different
// lists do not get a sum.
func (r *Registry) Update(l *List) ([]Enrolment, error) { return r.update(l, nil) }

// update applies a list. A list with a digest must not be changed by any caller: the registry keeps
// it without a copy and does not look through it again.
func (r *Registry) update(l *List, digest *Hash) ([]Enrolment, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.recover(); err != nil {
		return nil, fmt.Errorf("taking over the enrolment list: %w", err)
	}
	if err := r.verify(l); err != nil {
		return nil, err
	}
	next := r.state
	later, err := r.later(&l.Federation)
	if err != nil {
		return nil, err
	}
	var left []Enrolment // the places that were given up
	if later != nil {
		next.places, next.identities = maps.Clone(next.places), maps.Clone(next.identities)
		left = next.retire(l.Federation.Retired())
	}
	entries, out, err := next.update(l)
	if err != nil {
		return nil, err
	}
	if later != nil {
		entries, out = append([][]byte{later}, entries...), append(left, out...)
	}
	if len(entries) > 0 {
		if err = r.write(entries...); err != nil {
			return nil, fmt.Errorf("taking over the enrolment list: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = next
	if later != nil {
		own := l.Federation
		r.federation.Store(&own)
		r.logged = len(own.Epochs)
	}
	if digest != nil {
		r.view = newView(next.version, l)
		r.view.digest = *digest
	}
	return out, nil
}

// later returns the text of a federation if it has later epochs than the registry knows; nil if it has
// the same. The caller holds writing.
func (r *Registry) later(f *Federation) ([]byte, error) {
	if err := f.continues(r.Federation()); err != nil {
		return nil, err
	}
	if len(f.Epochs) == len(r.Federation().Epochs) {
		return nil, nil
	}
	return f.Encode()
}

// verify says whether a list belongs to this federation and has the newest revocations. It skips
// enrolments that are in.
func (r *Registry) verify(l *List) error {
	if err := r.Federation().own(l.Federation.Hash(), "list"); err != nil {
		return err
	}
	if err := l.verify(r.Federation().Operator, r.has); err != nil {
		return err
	}
	return l.Revocations.Follows(r.revocations)
}

// update takes a verified list, and gives what is new in it as entries of a log. The maps are copies, if they change.
func (s *state) update(l *List) (entries [][]byte, out []Enrolment, err error) {
	var fresh []*Enrolment
	for i := range l.Enrolments {
		if e := &l.Enrolments[i]; !s.has(e) {
			fresh = append(fresh, e)
		}
	}
	newer := l.Revocations.serial() > s.revocations.serial()
	if newer || len(fresh) > 0 {
		s.places, s.identities = maps.Clone(s.places), maps.Clone(s.identities)
	}
	if newer {
		text, err := l.Revocations.Encode()
		if err != nil {
			return nil, nil, err
		}
		entries, out = append(entries, text), s.revoke(l.Revocations)
	}
	for _, e := range fresh {
		if err := s.admit(e); err != nil {
			return nil, nil, fmt.Errorf("the enrolment list: %w", err)
		}
		own := *e
		s.enter(&own)
		text, err := e.Encode()
		if err != nil {
			return nil, nil, err
		}
		entries = append(entries, text)
	}
	// No party is in twice, so a party that is in and not on a whole list is one too many.
	if l.Part == nil && !l.Added && len(s.places) > len(l.Enrolments) {
		return nil, nil, s.missing(l)
	}
	return entries, out, nil
}

func (s *state) missing(l *List) error {
	for _, e := range s.list() {
		if _, ok := l.Holder(e.Ticket.Place); !ok {
			return fmt.Errorf("%w: the list lacks the %s", ErrForgotten, e.Ticket.Place)
		}
	}
	return nil
}
