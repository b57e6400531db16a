package admission_test

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
)

func excerpt(t testing.TB, r *admission.Registry, p admission.Place) []byte {
	t.Helper()
	text, digest, err := r.Excerpt(p)
	if err != nil || digest != sha256.Sum256(text) {
		t.Fatalf("the digest %x of an excerpt of %d bytes, %v", digest, len(text), err)
	}
	return text
}

// The part of a list that a client is shown has the server, the aggregator and the client, and the hash of the whole list. A proof
// has a hash for each doubling of the list (RFC 6962), of 64 digits, two quotes and a comma.
func TestAPartIsShort(t *testing.T) {
	sizes := make(map[int]int)
	for _, clients := range []int{6, 62} {
		w := newWorld(t, clients)
		hub := w.full()
		text := excerpt(t, hub, client(5))
		r, _ := w.registry()
		l, _, err := r.Take(text)
		if err != nil {
			t.Fatal(err)
		}
		if err = w.accept(client(5), 1, "client 5").Check(l); err != nil || len(l.Enrolments) != 3 || l.Hash() != hub.List().Hash() {
			t.Errorf("a part of %d parties with the hash %x, want %x; %v", len(l.Enrolments), l.Hash(), hub.List().Hash(), err)
		}
		sizes[clients] = len(text)
	}
	if more := sizes[62] - sizes[6]; more > 2*3*(64+3)+20 {
		t.Errorf("among 64 parties a client is shown %d bytes more than among 8", more)
	}
}

// An aggregator can show a client no part that the operator did not sign for, or that has the hash of another list. A client does not give up
// the server, the aggregator and itself as it knows them.
func TestForgedParts(t *testing.T) {
	w := newWorld(t, 6)
	hub := w.full()
	own := w.accept(client(2), 1, "client 2")
	stranger := key(t, "stranger").Public()
	take := func(r *admission.Registry, change func(*admission.List)) (*admission.List, error) {
		l, err := admission.ParseList(excerpt(t, hub, client(2)))
		if err != nil {
			t.Fatal(err)
		}
		change(l)
		text, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if l, _, err = r.Take(text); err != nil {
			return nil, err
		}
		return l, own.Check(l)
	}
	for name, c := range map[string]struct {
		change func(*admission.List)
		want   error
	}{
		"another server":       {func(l *admission.List) { l.Enrolments[0].Identity = stranger }, admission.ErrSignature},
		"another client":       {func(l *admission.List) { l.Enrolments[2].Identity = stranger }, admission.ErrSignature},
		"a party too few":      {func(l *admission.List) { l.Enrolments = l.Enrolments[:2] }, admission.ErrMalformed},
		"a proof too short":    {func(l *admission.List) { l.Part.Proof = l.Part.Proof[1:] }, admission.ErrMalformed},
		"out of order":         {func(l *admission.List) { slices.Reverse(l.Part.Positions) }, admission.ErrMalformed},
		"more than places":     {func(l *admission.List) { l.Part.Enrolled, l.Part.Proof = 9, append(l.Part.Proof, admission.Hash{}) }, admission.ErrMalformed},
		"without the client":   {func(l *admission.List) { *l = *w.partOf(hub, client(3)) }, admission.ErrNotEnrolled},
		"another federation's": {func(l *admission.List) { l.Federation.Name = "Other" }, admission.ErrFederation},
	} {
		r, _ := w.registry()
		if _, err := take(r, c.change); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	r, log := w.registry()
	l, err := take(r, func(l *admission.List) { l.Part.Proof[0][0] ^= 1 })
	if err != nil || l.Hash() == hub.List().Hash() {
		t.Errorf("a part of another list has the hash %x, %v", l.Hash(), err)
	}
	other, _ := w.registry() // in which the server is another, by a second ticket
	w.redeem(other, w.enrol(admission.ServerPlace, 2, "other server"), w.enrol(client(2), 1, "client 2"))
	for who, r := range map[string]*admission.Registry{"a registry": r, "a registry that was opened again": w.reopen(log)} {
		if _, _, err := r.Take(excerpt(t, other, client(2))); !errors.Is(err, admission.ErrHeld) {
			t.Errorf("%s takes another server: %v, want %v", who, err, admission.ErrHeld)
		}
	}
	r, _ = w.registry()
	if _, err := r.Restore(w.partOf(hub, client(2))); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("a part is taken for a list: %v", err)
	}
}

func (w *world) partOf(r *admission.Registry, p admission.Place) *admission.List {
	w.t.Helper()
	l, err := admission.ParseList(excerpt(w.t, r, p))
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// A client that has a part takes the whole list, of a session in active mode, and a part again.
func TestPartsAndWholeLists(t *testing.T) {
	w := newWorld(t, 6)
	hub := w.full()
	r, log := w.registry()
	for _, text := range [][]byte{excerpt(t, hub, client(2)), shown(t, hub), excerpt(t, hub, client(2))} {
		l, _, err := r.Take(text)
		if err != nil || l.Hash() != hub.List().Hash() {
			t.Errorf("the list is %x, %v", l.Hash(), err)
		}
	}
	if again := w.reopen(log); again.List().Hash() != hub.List().Hash() {
		t.Error("the whole list is another one after a restart")
	}
}

// A party that has a list is shown what was added to it, as long as nothing else has changed.
func TestAddedParties(t *testing.T) {
	w := newWorld(t, 6)
	hub, _ := w.registry()
	r, log := w.registry()
	var has *admission.List
	listed := func(want int) {
		t.Helper()
		now, text, err := hub.Since(has)
		if err != nil {
			t.Fatal(err)
		}
		has = now
		n := -1
		if text != nil {
			l, err := admission.ParseList(text)
			if err != nil {
				t.Fatal(err)
			}
			n = len(l.Enrolments)
			if l, _, err = r.Take(text); err != nil || l.Hash() != hub.List().Hash() {
				t.Errorf("with what was added the list is %x, want %x; %v", l.Hash(), hub.List().Hash(), err)
			}
		}
		if n != want {
			t.Errorf("a list of %d, want %d (-1: none)", n, want)
		}
	}
	w.redeem(hub, w.enrol(admission.ServerPlace, 1, "server"), w.enrol(client(3), 1, "client 3"))
	listed(2)
	w.redeem(hub, w.enrol(client(5), 1, "client 5"), w.enrol(client(0), 1, "client 0"))
	listed(2)
	listed(-1)
	if _, err := hub.Revoke(w.revoke(nil, admission.RevocationOf(w.enrol(client(3), 1, "client 3")))); err != nil {
		t.Fatal(err)
	}
	listed(3)
	w.redeem(hub, w.enrol(client(1), 1, "client 1"))
	listed(1)
	if again := w.reopen(log); again.List().Hash() != hub.List().Hash() {
		t.Error("after a restart the list is another one")
	}
}
