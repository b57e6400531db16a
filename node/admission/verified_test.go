package admission_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// A registry accepts what another registry of the process has verified, and nothing that differs
// from it in a bit.
func TestVerifiedIsShared(t *testing.T) {
	w := newWorld(t, 3)
	aggregator, _ := w.registry()
	w.redeem(aggregator, w.enrol(client(1), 1, "alice"))
	update := func(l *admission.List, v *admission.Verified) error {
		r, log := w.registry()
		r.Share(v)
		if _, err := r.Update(l); err != nil {
			return err
		}
		if _, err := admission.OpenRegistry(w.federation, log); err != nil {
			t.Errorf("what is kept is not verified: %v", err)
		}
		return nil
	}
	shared := new(admission.Verified)
	for range 2 {
		if err := update(aggregator.List(), shared); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(*admission.Enrolment){
		"place":               func(e *admission.Enrolment) { e.Ticket.Place = client(2) },
		"serial":              func(e *admission.Enrolment) { e.Ticket.Serial++ },
		"ticket's key":        func(e *admission.Enrolment) { e.Ticket.Key = key(t, "bob").Public() },
		"end":                 func(e *admission.Enrolment) { e.Ticket.NotAfter = e.Ticket.NotAfter.Add(time.Hour) },
		"fraction of the end": func(e *admission.Enrolment) { e.Ticket.NotAfter = e.Ticket.NotAfter.Add(time.Millisecond) },
		"operator's word":     func(e *admission.Enrolment) { e.Ticket.Signature[0] ^= 1 },
		"identity":            func(e *admission.Enrolment) { e.Identity = key(t, "bob").Public() },
		"redemption":          func(e *admission.Enrolment) { e.Redemption[0] ^= 1 },
		"possession":          func(e *admission.Enrolment) { e.Possession[0] ^= 1 },
	} {
		l := copyOf(t, aggregator.List())
		change(&l.Enrolments[0])
		if err := update(l, shared); !errors.Is(err, admission.ErrSignature) && !errors.Is(err, admission.ErrMalformed) {
			t.Errorf("another %s: %v", name, err)
		}
	}

	// An enrolment counts as verified only for the Verified and the operator that verified it.
	forged := copyOf(t, aggregator.List())
	forged.Enrolments[0].Possession[0] ^= 1
	poisoned := new(admission.Verified)
	poisoned.Add(&forged.Enrolments[0])
	r, _ := w.registry()
	r.Share(poisoned)
	if _, err := r.Update(forged); err != nil {
		t.Errorf("what is marked as verified is verified again: %v", err)
	}
	if err := update(forged, new(admission.Verified)); !errors.Is(err, admission.ErrSignature) {
		t.Errorf("a forged enrolment that nobody has verified: %v", err)
	}
	elsewhere, err := admission.NewFederation(w.operator, "Other", 3, founded, simulated.New(1, "other"))
	if err != nil {
		t.Fatal(err)
	}
	there, err := admission.OpenRegistry(elsewhere, store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	there.Share(shared)
	foreign := copyOf(t, aggregator.List())
	foreign.Federation = *elsewhere
	if _, err = there.Update(foreign); !errors.Is(err, admission.ErrFederation) {
		t.Errorf("an enrolment that was verified in another federation: %v", err)
	}
}
