package admission

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/internal/merkle"
)

// snapshot is the list of the parties that are known to be in. It is not changed: a change makes another one.
type snapshot struct {
	list       *List
	barred     barred
	identities map[PublicKey]Place
	tree       func() *merkle.Tree // of the list, if it has a party; made when it is first asked for
	text       func() listText     // likewise
	shown      *List               // as it was taken over last, whole or in part; nil: something has changed since
	digest     Hash                // of the text of shown
}

// listText is the text of a list with its digest.
type listText struct {
	bytes  []byte
	digest Hash
	err    error
}

func newSnapshot(l *List) (*snapshot, error) {
	identities, err := l.identities()
	return &snapshot{list: l, barred: l.barred(), identities: identities,
		tree: sync.OnceValue(func() *merkle.Tree { return merkle.New(l.leaves()) }),
		text: sync.OnceValue(func() listText {
			text, failed := l.Encode()
			return listText{text, sha256.Sum256(text), failed}
		})}, err
}

// next returns the snapshot after a list whose signatures are valid. Parties that are in stay, unless the list bars them: then they are out.
// news has the documents that this snapshot lacks. A whole list must have all parties. With anew the list's enrolments replace enrolments
// that are in, since the operator has signed them again.
func (s *snapshot) next(l *List, anew bool) (next *snapshot, news []document, out []*Enrolment, err error) {
	before := s.list
	if err = cmp.Or(l.Federation.continues(&before.Federation), l.Revocations.Follows(before.Revocations)); err != nil {
		return nil, nil, nil, err
	}
	if len(l.Federation.Epochs) > len(before.Federation.Epochs) {
		news = append(news, &l.Federation)
	}
	if l.Revocations.serial() > before.Revocations.serial() || anew && l.Revocations != nil {
		news = append(news, l.Revocations)
	}
	all := &List{Federation: l.Federation, Revocations: l.Revocations.clone(), Enrolments: make([]*Enrolment, 0, len(before.Enrolments)+len(l.Enrolments))}
	barred := l.barred()
	for _, e := range before.Enrolments {
		if barred.check(e) == nil {
			all.Enrolments = append(all.Enrolments, e)
		} else {
			out = append(out, e)
		}
	}
	kept := *all // in the same memory, which has room for more
	for _, e := range l.Enrolments {
		if err = barred.check(e); err != nil {
			return nil, nil, nil, err
		}
		i, known := kept.at(e.Ticket.Place)
		if known = known && kept.Enrolments[i].same(e); known && anew {
			kept.Enrolments[i] = e
		} else if !known {
			all.Enrolments = append(all.Enrolments, e)
		}
		if anew || !known {
			news = append(news, e)
		}
	}
	slices.SortStableFunc(all.Enrolments, func(a, b *Enrolment) int { return a.Ticket.Place.compare(b.Ticket.Place) })
	next, err = newSnapshot(all)
	if err == nil && l.Part == nil && !l.Added {
		err = l.has(all, "the list")
	}
	return next, news, out, err
}

// has returns ErrForgotten if the list lacks a party of an older list, which it does not bar.
func (l *List) has(old *List, what string) error {
	barred := l.barred()
	for _, e := range old.Enrolments {
		if !l.holds(e) && barred.check(e) == nil {
			return fmt.Errorf("%w: %s lacks the %s", ErrForgotten, what, e.Ticket.Place)
		}
	}
	return nil
}

// adding is a list that adds enrolments to a snapshot, and nothing else.
func (s *snapshot) adding(enrolments ...*Enrolment) *List {
	return &List{Federation: s.list.Federation, Revocations: s.list.Revocations, Enrolments: enrolments, Added: true}
}

// replay returns the snapshot after the entries of a log: texts of enrolments, revocations and federations. Enrolments in a row are taken
// over at once.
func (s *snapshot) replay(log Log) (*snapshot, error) {
	n, row := 0, []*Enrolment(nil)
	take := func(l *List) (err error) {
		row = nil
		s, _, _, err = s.next(l, true)
		return err
	}
	read := func(entry []byte) error {
		kind, _, err := open(entry)
		if err != nil {
			return err
		}
		if kind == kindEnrolment {
			var e *Enrolment
			if e, err = ParseEnrolment(entry); err == nil {
				err = e.Verify(&s.list.Federation)
			}
			row = append(row, e)
			return err
		}
		if err = take(s.adding(row...)); err != nil {
			return err
		}
		l := s.adding()
		if kind == kindFederation {
			var f *Federation
			if f, err = ParseFederation(entry); err == nil {
				err = l.Federation.own(f.Hash(), "federation")
			}
			if err == nil && len(f.Epochs) == len(l.Federation.Epochs) {
				err = fmt.Errorf("%w: the federation without another epoch", ErrMalformed)
			}
			if err == nil {
				l.Federation = *f
			}
		} else if l.Revocations, err = ParseRevocations(entry); err == nil {
			err = l.Revocations.Verify(&l.Federation)
		}
		if err != nil {
			return err
		}
		return take(l)
	}
	err := log.Entries(func(entry []byte) error {
		n++
		if err := read(entry); err != nil {
			return fmt.Errorf("entry %d of the registry: %w", n, err)
		}
		return nil
	})
	if err == nil && len(row) > 0 {
		err = take(s.adding(row...))
	}
	return s, err
}

// ErrHandedOver is wrapped where a federation alone shows another key of its operator. The list that was made with it has the parties as
// that key signs them.
var ErrHandedOver = errors.New("admission: the federation was handed over to another key of its operator: the list that the hand-over wrote is needed")

// handedOver returns ErrHandedOver if a federation has another key of the operator than the snapshot, which has parties by the old one.
func (s *snapshot) handedOver(f *Federation) error {
	if f.Signer() != s.list.Federation.Signer() && len(s.list.Enrolments) > 0 {
		return fmt.Errorf("%w: it is %s", ErrHandedOver, f.Signer())
	}
	return nil
}

// merge joins lists, and verifies all signatures.
func merge(operator PublicKey, lists []*List) (*List, error) {
	// The newest epoch first: of two documents of one serial, the operator's latest key has signed the first.
	sorted := slices.SortedStableFunc(slices.Values(lists), func(a, b *List) int { return cmp.Compare(len(b.Federation.Epochs), len(a.Federation.Epochs)) })
	newest := slices.MaxFunc(sorted, func(a, b *List) int { return cmp.Compare(a.Revocations.serial(), b.Revocations.serial()) })
	out := &List{Federation: sorted[0].Federation, Revocations: newest.Revocations, Enrolments: []*Enrolment{}}
	for i, l := range lists {
		err := cmp.Or(l.Verify(operator), out.Federation.own(l.Federation.Hash(), "list"))
		if err == nil {
			err = cmp.Or(out.Federation.continues(&l.Federation), out.Revocations.Follows(l.Revocations))
		}
		if err == nil && (l.Part != nil || l.Added) {
			err = fmt.Errorf("%w: it is a part of one", ErrMalformed)
		}
		if err != nil {
			return nil, fmt.Errorf("list %d: %w", i+1, err)
		}
	}
	s, err := newSnapshot(out)
	if err != nil {
		return nil, err
	}
	for _, l := range sorted {
		left := slices.DeleteFunc(slices.Clone(l.Enrolments), func(e *Enrolment) bool { return s.list.holds(e) || s.barred.check(e) != nil })
		if len(left) > 0 && l.Federation.Signer() != out.Federation.Signer() {
			return nil, fmt.Errorf("%w: its list lacks the %s; hand over again with the newest list", ErrHandedOver, left[0].Ticket.Place)
		}
		if s, _, _, err = s.next(s.adding(left...), false); err != nil {
			return nil, err
		}
	}
	return s.list, s.list.Verify(operator)
}
