package admission_test

import (
	"errors"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// handOver makes the key of a name the operator's. signer signs that.
func (w *world) handOver(l *admission.List, signer, name string) *admission.List {
	w.t.Helper()
	out, err := w.federation.HandOver(key(w.t, signer), key(w.t, name), copyOf(w.t, l), founded)
	if err != nil {
		w.t.Fatal(err)
	}
	w.operator, w.federation = key(w.t, name), &out.Federation
	return out
}

// The operator's key is replaced, and the federation, identities and places stay. From then on the old key, which may be stolen,
// invites and revokes no client at a party that knows. Each party learns of it by the list that it is shown.
func TestOperatorsKeyIsHandedOver(t *testing.T) {
	w := newWorld(t, 4)
	id, log := w.federation.Hash(), store.NewMemoryLog()
	r := w.reopen(log)
	own := w.accept(client(1), 1, "client 1")
	w.redeem(r, w.enrol(admission.ServerPlace, 1, "server"), &own.Enrolment, w.enrol(client(2), 1, "gone"))
	if _, err := r.Revoke(w.revoke(nil, admission.Revocation{Place: client(2), Serial: 1})); err != nil {
		t.Fatal(err)
	}
	before := *w
	other, otherLog := w.registry() // of a client
	if _, err := other.Update(r.List()); err != nil {
		t.Fatal(err)
	}
	list := w.handOver(r.List(), "operator", "next")
	if w.federation.Hash() != id || w.federation.Signer() != key(t, "next").Public() {
		t.Errorf("the operator is %s", w.federation.Signer())
	}
	if _, err := r.Grow(w.federation); !errors.Is(err, admission.ErrHandedOver) {
		t.Errorf("the federation without the list: %v", err)
	}
	w.reopen(log) // the file of the federation is newer than the registry
	if n, err := r.Restore(copyOf(t, list)); err != nil || n != 2 {
		t.Fatalf("%d parties, %v", n, err)
	}
	if _, _, err := other.Take(mustEncode(t, r.List())); err != nil {
		t.Fatal(err)
	}
	for who, x := range map[string]*admission.Registry{"aggregator": r, "client": other, "aggregator, started again": before.reopen(log), "client, started again": before.reopen(otherLog)} {
		if x.List().Hash() != list.Hash() || x.List().Verify(before.operator.Public()) != nil {
			t.Errorf("%s: another list, or one that does not verify: %v", who, x.List().Verify(before.operator.Public()))
		}
		if err := x.Redeem(founded, before.enrol(client(3), 1, "thief")); !errors.Is(err, admission.ErrSignature) {
			t.Errorf("%s: a ticket by the old key: %v", who, err)
		}
		if _, err := x.Revoke(before.revoke(x.Revocations().SignedBy(before.operator), admission.Revocation{Place: client(1), Serial: 1})); !errors.Is(err, admission.ErrSignature) {
			t.Errorf("%s: revocations by the old key: %v", who, err)
		}
	}
	if err := own.Check(other.List()); err != nil {
		t.Errorf("a party that enrolled before: %v", err)
	}
	w.redeem(r, w.enrol(client(2), 2, "again")) // by the new key
	if _, err := r.Revoke(w.revoke(r.Revocations(), admission.Revocation{Place: client(1), Serial: 1})); err != nil {
		t.Errorf("revocations by the new key: %v", err)
	}
	if _, err := other.Update(copyOf(t, r.List())); err != nil {
		t.Error(err)
	}
	if again := before.reopen(log); again.List().Hash() != r.List().Hash() {
		t.Error("read again, the list is another")
	}
	fresh, err := admission.OpenRegistry(w.federation, store.NewMemoryLog()) // of a party that is invited now
	if err == nil {
		_, err = fresh.Update(copyOf(t, r.List()))
	}
	if err != nil {
		t.Error(err)
	}
}

// A list that lacks a party hands nothing over: the party would be out.
func TestHandOverWithAnOldList(t *testing.T) {
	w := newWorld(t, 2)
	r, _ := w.registry()
	w.redeem(r, w.enrol(client(0), 1, "client 0"))
	early := r.List()
	w.redeem(r, w.enrol(client(1), 1, "client 1"))
	if _, err := r.Restore(w.handOver(early, "operator", "next")); !errors.Is(err, admission.ErrHandedOver) {
		t.Errorf("%v", err)
	}
	if r.List().Federation.Signer() == w.federation.Signer() {
		t.Error("a list that was refused has changed the operator")
	}
}

// A lost key is replaced by the recovery key, which signs nothing else. Without one it stays lost.
func TestLostOperatorsKeyIsReplaced(t *testing.T) {
	w := newWorld(t, 2)
	r := w.full()
	if _, err := w.federation.HandOver(key(t, "thief"), key(t, "next"), r.List(), founded); !errors.Is(err, admission.ErrSignature) {
		t.Errorf("by a stranger: %v", err)
	}
	var err error
	if w.federation, err = admission.NewFederation(w.operator, "Test", 2, founded, simulated.New(1, "recoverable"), key(t, "recovery").Public()); err != nil {
		t.Fatal(err)
	}
	r = w.full()
	if _, err = w.federation.Grow(key(t, "recovery"), 1, nil, founded); !errors.Is(err, admission.ErrFederation) {
		t.Errorf("the recovery key adds a place: %v", err)
	}
	if _, err = r.Restore(w.handOver(r.List(), "recovery", "next")); err != nil {
		t.Error(err)
	}
	w.grow(1)
	if _, err = r.Grow(w.federation); err != nil {
		t.Errorf("an epoch by the new key: %v", err)
	}
	known := w.federation
	if _, err = r.Restore(w.handOver(r.List(), "next", "thief")); err != nil { // who has stolen the key, and comes first
		t.Fatal(err)
	}
	w.federation = known // the operator's file
	if _, err = r.Restore(w.handOver(r.List(), "recovery", "after the thief")); err != nil || r.Federation().Signer() != key(t, "after the thief").Public() {
		t.Errorf("the recovery key takes the federation back: %v, and the operator is %s", err, r.Federation().Signer())
	}
	for _, used := range []string{"operator", "recovery", "next"} {
		if _, err = w.federation.HandOver(w.operator, key(t, used), r.List(), founded); !errors.Is(err, admission.ErrIdentityUsed) {
			t.Errorf("a key that was the operator's becomes so again: %v", err)
		}
	}
}

func mustEncode(t *testing.T, l *admission.List) []byte {
	t.Helper()
	text, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
