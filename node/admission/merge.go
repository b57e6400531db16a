package admission

import (
	"errors"
	"fmt"
)

// Merge joins lists of one federation that several parties keep. Each may lack some parties. The
// result has the latest epoch, the newest revocations, and every enrolment of any list that these do not
// rule out. All signatures are verified. Two lists with different parties in one place are refused
// (ErrHeld): the operator revokes one of them first.
func Merge(operator PublicKey, lists ...*List) (*List, error) {
	if len(lists) == 0 {
		return nil, fmt.Errorf("%w: no list", ErrMalformed)
	}
	out := &List{Federation: lists[0].Federation}
	for i, l := range lists {
		if l.Part != nil || l.Added {
			return nil, fmt.Errorf("list %d: %w: it is a part of one", i+1, ErrMalformed)
		}
		if err := l.Verify(operator); err != nil {
			return nil, fmt.Errorf("list %d: %w", i+1, err)
		}
		if err := out.Federation.own(l.Federation.Hash(), "list"); err != nil {
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
		case err == nil:
			out.Revocations = l.Revocations
		case !errors.Is(err, ErrOutdated):
			return nil, fmt.Errorf("list %d: %w", i+1, err)
		}
	}
	all := newState()
	all.barred = newBarred(out.Revocations)
	all.barred.retired = out.Federation.Retired()
	for i, l := range lists {
		for k := range l.Enrolments {
			e := &l.Enrolments[k]
			if all.has(e) || all.barred.check(e) != nil {
				continue
			}
			if err := all.admit(e); err != nil {
				return nil, fmt.Errorf("list %d: %w", i+1, err)
			}
			all.enter(e)
		}
	}
	for _, e := range all.list() {
		out.Enrolments = append(out.Enrolments, *e)
	}
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
