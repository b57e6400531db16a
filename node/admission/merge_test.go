package admission_test

import (
	"errors"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
)

// only returns a list with some of its entries, as a party that knows no more keeps it.
func only(t *testing.T, l *admission.List, at ...int) *admission.List {
	t.Helper()
	out := copyOf(t, l)
	all := out.Enrolments
	out.Enrolments = nil
	for _, i := range at {
		out.Enrolments = append(out.Enrolments, all[i])
	}
	return out
}

// A lost registry is restored from lists that each lack some parties.
func TestRestoredFromLists(t *testing.T) {
	w := newWorld(t, 3)
	whole := w.full().List() // server, aggregator, clients 0 to 2
	r, log := w.registry()
	if n, err := r.Restore(only(t, whole, 0, 2), only(t, whole, 3), only(t, whole, 0, 1, 4)); n != 5 || err != nil {
		t.Fatalf("%d parties, %v; want 5", n, err)
	}
	want := map[admission.Place]string{admission.ServerPlace: "server", admission.AggregatorPlace: "aggregator", client(0): "client 0", client(1): "client 1", client(2): "client 2"}
	holds(t, r, want)
	before := entries(t, log)
	if _, err := r.Restore(only(t, whole, 2)); err != nil || entries(t, log) != before { // once more
		t.Errorf("known parties once more: %v, %d entries after %d", err, entries(t, log), before)
	}
	holds(t, w.reopen(log), want) // after a restart
	if err := r.Redeem(founded, w.enrol(client(1), 1, "bob")); !errors.Is(err, admission.ErrRedeemed) {
		t.Errorf("a ticket that was redeemed before the loss: %v", err)
	}
}

// The newest revocations of any list hold for all lists. A revoked party stays out, and another may have its place.
func TestRestoredWithoutRevokedParties(t *testing.T) {
	w := newWorld(t, 3)
	old := w.full()
	earlier := old.List()
	v := w.revoke(nil, admission.Revocation{Place: client(1), Serial: 1})
	if _, err := old.Revoke(v); err != nil {
		t.Fatal(err)
	}
	w.redeem(old, w.enrol(client(1), 2, "again"))
	for name, lists := range map[string][]*admission.List{"newest first": {old.List(), earlier}, "newest last": {earlier, old.List()}} {
		r, _ := w.registry()
		if n, err := r.Restore(lists...); n != 5 || err != nil {
			t.Fatalf("%s: %d parties, %v; want 5", name, n, err)
		}
		if k, _ := r.Holder(client(1)); k != key(t, "again").Public() {
			t.Errorf("%s: client 1 is %s", name, k)
		}
		if r.Revocations().Hash() != v.Hash() {
			t.Errorf("%s: the revocations are others", name)
		}
	}
}

// Lists that contradict one another, or are not signed, change nothing.
func TestRefusesListsToRestore(t *testing.T) {
	w := newWorld(t, 3)
	whole := w.full().List()
	other, _ := w.registry()
	w.redeem(other, w.enrol(client(1), 1, "bob"))
	forged := copyOf(t, whole)
	forged.Enrolments[2].Identity = key(t, "mallory").Public()
	for name, c := range map[string]struct {
		lists []*admission.List
		want  error
	}{
		"two parties in one place": {[]*admission.List{whole, other.List()}, admission.ErrRedeemed},
		"a forged entry":           {[]*admission.List{forged}, admission.ErrSignature},
		"an order of its own":      {[]*admission.List{only(t, whole, 3, 2)}, admission.ErrMalformed},
	} {
		r, log := w.registry()
		if _, err := r.Restore(c.lists...); !errors.Is(err, c.want) || entries(t, log) != 0 {
			t.Errorf("%s: %v, %d entries; want %v", name, err, entries(t, log), c.want)
		}
	}
}
