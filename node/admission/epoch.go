package admission

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Epoch changes the places of a federation, signed by its operator: there are more of them, or some
// are given up. Or it hands the federation over to another key of the operator. Each epoch names its predecessor, so that all parties
// check one chain. Identities, tickets and ledgers stay as they are.
type Epoch struct {
	Number   uint32 `json:"number"`   // from 1
	Previous Hash   `json:"previous"` // of the epoch before, or of the federation
	Clients  int    `json:"clients"`  // places of clients from now on; never fewer than before
	// Retired are the clients' places that were given up so far, ascending. Each epoch has all of its predecessor.
	Retired []protocol.ClientID `json:"retired,omitempty"`
	Created time.Time           `json:"created"` // UTC, whole seconds
	// Operator, if set, is the operator's key from now on. The earlier key signs this epoch, or the federation's recovery key.
	Operator  PublicKey `json:"operator,omitzero"`
	Signature Signature `json:"signature"`
}

// maxEpochs limits the epochs of a federation.
const maxEpochs = 1000

// ErrEpoch is wrapped where epochs of a federation contradict one another.
var ErrEpoch = errors.New("admission: the epochs of the federation do not follow one another")

// Hash is the SHA-256 of the transcript of the domain "fedsim/admission/epoch/v1" with number, the
// hash before, places, the number of places given up, each of these, and creation in seconds since
// 1970. An operator's new key follows if there is one. The signature is over it.
func (e *Epoch) Hash() Hash {
	t := protocol.NewTranscript("fedsim/admission/epoch/v1").Uint(uint64(e.Number)).Bytes(e.Previous[:]).Uint(uint64(e.Clients)).Uint(uint64(len(e.Retired)))
	for _, id := range e.Retired {
		t.Uint(uint64(id))
	}
	if t.Uint(uint64(e.Created.Unix())); !e.Operator.IsZero() {
		t.Bytes(e.Operator[:])
	}
	return t.Sum()
}

// Signer is the operator's key in the latest epoch. It signs tickets and revocations. A federation stays known by the key that founded it.
func (f *Federation) Signer() PublicKey {
	for _, e := range slices.Backward(f.Epochs) {
		if !e.Operator.IsZero() {
			return e.Operator
		}
	}
	return f.Operator
}

// operates says whether a key is, or was, the operator's.
func (f *Federation) operates(k PublicKey) bool {
	return k == f.Operator || k == f.Recovery || slices.ContainsFunc(f.Epochs, func(e Epoch) bool { return e.Operator == k })
}

// HandOver makes another key the operator's, in another epoch that the present key or the recovery key signs. It signs everything that holds
// anew: the returned list has the federation, the revocations and all parties of a list of the federation. Nothing that the old key
// signs is valid for a party that has taken over that list, so a thief of the old key invites and revokes no party any more.
func (f *Federation) HandOver(signer, next PrivateKey, l *List, now time.Time) (*List, error) {
	if l.Part != nil || l.Added {
		return nil, fmt.Errorf("%w: the list is a part of one", ErrMalformed)
	}
	if err := errors.Join(f.own(l.Federation.Hash(), "list"), l.Verify(f.Operator)); err != nil {
		return nil, err
	}
	if l.Federation.continues(f) == nil { // with epochs that f lacks, for example a thief's
		f = &l.Federation
	}
	if f.operates(next.Public()) {
		return nil, fmt.Errorf("%w: %s is or was the operator's", ErrIdentityUsed, next.Public())
	}
	e := Epoch{Number: uint32(len(f.Epochs) + 1), Previous: f.Latest(), Clients: f.Places(), Retired: f.Retired(), Created: seconds(now), Operator: next.Public()}
	e.Signature = signer.Sign(e.Hash())
	out := &List{Federation: *f, Revocations: l.Revocations.clone(), Enrolments: slices.Clone(l.Enrolments)}
	out.Federation.Epochs = append(slices.Clone(f.Epochs), e)
	if out.Revocations != nil {
		out.Revocations.Signature = next.Sign(out.Revocations.Hash())
	}
	for i := range out.Enrolments {
		out.Enrolments[i].Ticket.Resign(next)
	}
	return out, out.Verify(f.Operator)
}

// Resign signs the ticket anew, by an operator's other key.
func (t *Ticket) Resign(operator PrivateKey) { t.Signature = operator.Sign(t.Hash()) }

// last is the latest epoch. Before the first it has the places of the founding.
func (f *Federation) last() *Epoch {
	if n := len(f.Epochs); n > 0 {
		return &f.Epochs[n-1]
	}
	return &Epoch{Clients: f.Clients}
}

// Places is the number of clients' places in the latest epoch, including places that were given up.
func (f *Federation) Places() int { return f.last().Clients }

// Retired are the clients' places that were given up, ascending.
func (f *Federation) Retired() []protocol.ClientID { return f.last().Retired }

// Gone says whether a place was given up.
func (f *Federation) Gone(p Place) bool {
	_, gone := slices.BinarySearch(f.Retired(), p.Client)
	return gone && p.Role == protocol.Client
}

// Had says whether the federation has so many places in its present epoch or had in an earlier one.
func (f *Federation) Had(places int) bool {
	return places == f.Clients || slices.ContainsFunc(f.Epochs, func(e Epoch) bool { return e.Clients == places })
}

// Latest names the federation in its latest epoch.
func (f *Federation) Latest() Hash {
	if n := len(f.Epochs); n > 0 {
		return f.Epochs[n-1].Hash()
	}
	return f.Hash()
}

// Grow returns the federation with another epoch: with more places, and with some given up.
func (f *Federation) Grow(operator PrivateKey, more int, retire []protocol.ClientID, now time.Time) (*Federation, error) {
	if err := f.signedBy(operator); err != nil {
		return nil, err
	}
	for _, id := range retire {
		if f.Gone(ClientPlace(id)) {
			return nil, fmt.Errorf("%w: the %s was given up before", ErrEpoch, ClientPlace(id))
		}
	}
	e := Epoch{Number: uint32(len(f.Epochs) + 1), Previous: f.Latest(), Clients: f.Places() + more, Created: seconds(now)}
	e.Retired = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(f.Retired()), retire...))))
	e.Signature = operator.Sign(e.Hash())
	next := *f
	next.Epochs = append(slices.Clone(f.Epochs), e)
	return &next, next.Verify(f.Operator)
}

func (f *Federation) verifyEpochs() error {
	if len(f.Epochs) > maxEpochs {
		return fmt.Errorf("%w: %d epochs; there can be %d", ErrMalformed, len(f.Epochs), maxEpochs)
	}
	before := *f
	for i := range f.Epochs {
		e := &f.Epochs[i]
		before.Epochs = f.Epochs[:i]
		if err := e.follows(&before); err != nil {
			return fmt.Errorf("epoch %d: %w", i+1, err)
		}
	}
	return nil
}

// follows says whether an epoch is the next one of a federation.
func (e *Epoch) follows(f *Federation) error {
	if err := checkTime("creation of an epoch", e.Created); err != nil {
		return err
	}
	switch {
	case int(e.Number) != len(f.Epochs)+1 || e.Previous != f.Latest():
		return fmt.Errorf("%w: it is number %d, after another one", ErrEpoch, e.Number)
	case e.Clients < f.Places() || e.Clients > MaxClients:
		return fmt.Errorf("%w: %d places of clients, after %d; there can be up to %d, and none fewer", ErrEpoch, e.Clients, f.Places(), MaxClients)
	case f.Signer().Verify(e.Hash(), e.Signature): // the usual way
	case e.Operator.IsZero() || f.Recovery.IsZero() || !f.Recovery.Verify(e.Hash(), e.Signature):
		return fmt.Errorf("%w: it is not signed by the operator %s", ErrSignature, f.Signer())
	}
	if !e.Operator.IsZero() {
		if err := e.Operator.check(); err != nil || f.operates(e.Operator) {
			return errors.Join(ErrIdentityUsed, err)
		}
	}
	for i, id := range e.Retired {
		if int64(id) >= int64(e.Clients) || i > 0 && e.Retired[i-1] >= id {
			return fmt.Errorf("%w: the places that were given up are not in order, or there is no %s", ErrMalformed, ClientPlace(id))
		}
	}
	for _, id := range f.Retired() {
		if _, ok := slices.BinarySearch(e.Retired, id); !ok {
			return fmt.Errorf("%w: the %s was given up before, and is there again", ErrEpoch, ClientPlace(id))
		}
	}
	if e.Clients == f.Places() && len(e.Retired) == len(f.Retired()) && e.Operator.IsZero() {
		return fmt.Errorf("%w: it changes nothing", ErrEpoch)
	}
	return nil
}

// continues says whether a verified federation has all epochs of another: ErrOutdated if it has fewer, ErrEpoch if it has others.
func (f *Federation) continues(old *Federation) error {
	for i := range min(len(f.Epochs), len(old.Epochs)) {
		if f.Epochs[i].Hash() != old.Epochs[i].Hash() {
			return fmt.Errorf("%w: the operator signed two different epochs %d", ErrEpoch, i+1)
		}
	}
	if len(f.Epochs) < len(old.Epochs) {
		return fmt.Errorf("%w: epoch %d of the federation, after %d", ErrOutdated, len(f.Epochs), len(old.Epochs))
	}
	return nil
}

// Federation is the federation in the latest epoch that the registry knows. It must not be changed.
func (r *Registry) Federation() *Federation { return r.federation.Load() }

// Grow takes over the epochs of the operator's newest federation. It returns the enrolments at places that were given up; every connection
// to these parties is to be closed. Once it returns without an error, that is durable. An error changes nothing.
func (r *Registry) Grow(f *Federation) ([]Enrolment, error) {
	if err := cmp.Or(f.Verify(r.Federation().Operator), r.Federation().own(f.Hash(), "federation")); err != nil {
		return nil, err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := cmp.Or(f.continues(r.Federation()), r.handedOver(f)); err != nil {
		return nil, err
	}
	if err := r.recover(); err != nil {
		return nil, err
	}
	switch len(f.Epochs) {
	case r.logged: // all of them are in the log
		return nil, nil
	case len(r.Federation().Epochs):
		return nil, r.write()
	}
	text, err := f.Encode()
	if err == nil {
		err = r.write(text)
	}
	if err != nil {
		return nil, fmt.Errorf("epoch %d of the federation: %w", len(f.Epochs), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	own := *f
	r.federation.Store(&own)
	r.logged = len(own.Epochs)
	return r.retire(own.Retired()), nil
}

// ErrHandedOver is wrapped where a federation alone shows another key of its operator. The list that was made with it has the parties as
// that key signs them.
var ErrHandedOver = errors.New("admission: the federation was handed over to another key of its operator: the list that the hand-over wrote is needed")

// handedOver returns ErrHandedOver if a federation has another key of the operator than the registry, which has parties by the old one.
func (r *Registry) handedOver(f *Federation) error {
	if f.Signer() != r.Federation().Signer() && len(r.places) > 0 && len(f.Epochs) > len(r.Federation().Epochs) {
		return fmt.Errorf("%w: it is %s", ErrHandedOver, f.Signer())
	}
	return nil
}

// retire takes places out, and returns the enrolments that it removes.
func (s *state) retire(ids []protocol.ClientID) []Enrolment {
	s.version++
	s.barred.retired = ids
	return s.sweep()
}

// Take applies a list that another party keeps, in its text: see Update. It returns the list, which is shared and must not be changed, and
// the enrolments that were revoked. Of a text with what was added to a list, that is the whole list. A text that was the last to be taken
// over is neither parsed nor looked through again, as long as nothing has changed since.
func (r *Registry) Take(text []byte) (*List, []Enrolment, error) {
	digest := Hash(sha256.Sum256(text))
	if v := r.present(); v != nil && (v.taken == digest || v.taken == Hash{} && v.text().digest == digest) {
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

// Update applies a list that another party keeps. A party applies its aggregator's list; an aggregator that lost its registry applies a
// party's list. The list must have every known party in the same place with the same key, except parties that newer revocations revoke
// (ErrForgotten, ErrRedeemed, ErrHeld). Its revocations must be the newest that are known (ErrOutdated). Update returns the enrolments that
// were revoked. A list that is refused changes nothing.
//
// A part of a list says nothing of other parties. In semi-honest mode a client needs no more, since it takes the others' keys
// on the aggregator's word there.
//
// An aggregator can thus leave a party off the list at first, or withhold revocations that the party has not got from the operator
// (Revoke), but not go back on what it has shown. Masks, and in active mode signatures, are bound to the keys on the list: parties that
// were shown different lists do not get a sum.
func (r *Registry) Update(l *List) ([]Enrolment, error) { return r.update(l, nil) }

// update applies a list. A list with a digest must not be changed by any caller: the registry keeps
// it without a copy and does not look through it again.
func (r *Registry) update(l *List, digest *Hash) ([]Enrolment, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := r.recover(); err != nil {
		return nil, fmt.Errorf("taking over the enrolment list: %w", err)
	}
	anew := l.Federation.Signer() != r.Federation().Signer() // the earlier signatures count no more
	if err := r.verify(l, anew); err != nil {
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
	entries, out, err := next.update(l, anew)
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
		r.view.taken = *digest
	}
	return out, nil
}

// later returns the text of a federation if it has later epochs than the registry knows; nil if it has the same. The caller holds writing.
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
// enrolments that are in, unless all signatures are new.
func (r *Registry) verify(l *List, anew bool) error {
	if err := r.Federation().own(l.Federation.Hash(), "list"); err != nil {
		return err
	}
	if err := l.verify(r.Federation().Operator, func(e *Enrolment) bool { return !anew && r.has(e) }); err != nil {
		return err
	}
	return l.Revocations.Follows(r.revocations)
}

// update takes a verified list, and gives what is new in it as entries of a log: all of it, if it was signed anew. The maps are copies, if
// they change.
func (s *state) update(l *List, anew bool) (entries [][]byte, out []Enrolment, err error) {
	var fresh []*Enrolment
	for i := range l.Enrolments {
		if e := &l.Enrolments[i]; anew || !s.has(e) {
			fresh = append(fresh, e)
		}
	}
	newer := l.Revocations.serial() > s.revocations.serial() || anew && l.Revocations != nil
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
		if err := s.admit(e); err != nil && !s.has(e) {
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

// Merge joins lists of one federation that several parties keep. Each may lack some parties. The result has the latest epoch, the newest
// revocations, and every enrolment of any list that these do not rule out. All signatures are verified. Two lists with different parties in
// one place are refused (ErrHeld): the operator revokes one of them first.
func Merge(operator PublicKey, lists ...*List) (*List, error) {
	if len(lists) == 0 {
		return nil, fmt.Errorf("%w: no list", ErrMalformed)
	}
	out := &List{Federation: lists[0].Federation}
	for i, l := range lists {
		if l.Part != nil || l.Added {
			return nil, fmt.Errorf("list %d: %w: it is a part of one", i+1, ErrMalformed)
		}
		if err := cmp.Or(l.Verify(operator), out.Federation.own(l.Federation.Hash(), "list")); err != nil {
			return nil, fmt.Errorf("list %d: %w", i+1, err)
		}
		switch err := l.Federation.continues(&out.Federation); {
		case err == nil:
			out.Federation = l.Federation
		case !errors.Is(err, ErrOutdated):
			return nil, fmt.Errorf("list %d: %w", i+1, err)
		}
		switch err := l.Revocations.Follows(out.Revocations); {
		case l.Revocations == nil: // none are known there
		case err == nil && l.Revocations.serial() == out.Revocations.serial() && out.Revocations.Verify(&out.Federation) == nil:
		case err == nil:
			out.Revocations = l.Revocations
		case !errors.Is(err, ErrOutdated):
			return nil, fmt.Errorf("list %d: %w", i+1, err)
		}
	}
	all := newState()
	all.barred = newBarred(out.Revocations, out.Federation.Retired())
	old := func(l *List) int { return cmp.Compare(len(out.Federation.Epochs), len(l.Federation.Epochs)) }
	for i, l := range slices.SortedStableFunc(slices.Values(lists), func(a, b *List) int { return cmp.Compare(old(a), old(b)) }) {
		for k := range l.Enrolments {
			e := &l.Enrolments[k]
			if all.has(e) || all.barred.check(e) != nil {
				continue
			}
			if l.Federation.Signer() != out.Federation.Signer() {
				return nil, fmt.Errorf("%w: its list lacks the %s; hand over again with the newest list", ErrHandedOver, e.Ticket.Place)
			}
			if err := all.admit(e); err != nil {
				return nil, fmt.Errorf("list %d: %w", i+1, err)
			}
			all.enter(e)
		}
	}
	out.Enrolments = all.enrolments()
	return out, out.Verify(operator)
}

// Restore takes parties over from lists that others keep, for an aggregator that has lost its registry.
// It returns how many there are now. A list that is refused changes nothing.
func (r *Registry) Restore(lists ...*List) (int, error) {
	merged, err := Merge(r.Federation().Operator, append([]*List{r.List()}, lists...)...)
	if err == nil {
		_, err = r.Update(merged)
	}
	if err != nil {
		return 0, err
	}
	return len(merged.Enrolments), nil
}
