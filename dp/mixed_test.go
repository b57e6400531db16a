package dp

import (
	"errors"
	"strings"
	"testing"
)

// An ε about one rating and one about one user are not added up.
func TestMixturesAreRefused(t *testing.T) {
	user, rating := Protection{User, ZeroOut}, Protection{Rating, AddRemove}
	b := Budget{Epsilon: 10, Delta: 1e-5, Accountant: RDP}
	record := func(session byte, p Protection) Record {
		return Record{Session: [16]byte{session}, Round: 1, Events: []Event{Gaussian(5)}, Protection: p}
	}
	for _, c := range []struct {
		records []Record
		next    Protection
		refused bool
	}{
		{nil, user, false},
		{nil, Protection{}, false},
		{[]Record{record(1, user), record(2, user)}, user, false},
		{[]Record{record(1, user)}, rating, true},
		{[]Record{record(1, user)}, Protection{User, AddRemove}, true},
		{[]Record{record(1, Protection{})}, user, true},
		{[]Record{record(1, user)}, Protection{}, true}, // to a charge of unknown protection
		{[]Record{record(1, Protection{User, ""})}, user, true},
	} {
		l, err := RestoreLedger(b, nil, c.records)
		if err != nil {
			t.Fatal(err)
		}
		if err = l.Protect(c.next); errors.Is(err, ErrMixed) != c.refused {
			t.Errorf("%v after %v: %v", c.next, c.records, err)
		}
	}
	if _, err := RestoreLedger(b, nil, []Record{record(1, user), record(2, rating)}); !errors.Is(err, ErrMixed) || !strings.Contains(err.Error(), "record 1") ||
		!strings.Contains(err.Error(), "unit=user, relation=zero-out") {
		t.Errorf("a ledger of both: %v", err)
	}
	if l, err := NewLedger(b, nil); err != nil || l.Protect(Protection{"person", ZeroOut}) == nil {
		t.Errorf("a unit that there is not is taken")
	}
}

// A charge is about any unit and relation that a statement may have.
func TestProtectionKnowsEveryRelation(t *testing.T) {
	for _, p := range []Protection{{}, {User, ZeroOut}, {Rating, AddRemove}, {Example, Label}, {Example, PrivatePart}} {
		if err := p.Validate(); err != nil {
			t.Errorf("%v: %v", p, err)
		}
		l, err := NewLedger(Budget{Epsilon: 1, Delta: 1e-5, Accountant: RDP}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err = l.Protect(p); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
	if err := (Protection{User, "replaced"}).Validate(); err == nil {
		t.Error("a relation that does not exist is taken")
	}
}
