package admission_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// holds fails the test unless exactly those identities hold those places.
func holds(t *testing.T, r *admission.Registry, want map[admission.Place]string) {
	t.Helper()
	text, _, err := r.Text()
	if listed, failed := r.List().Encode(); err != nil || failed != nil || !bytes.Equal(text, listed) {
		t.Errorf("the list's text is %s, %v; that of the list %s, %v", text, err, listed, failed)
	}
	l := r.List()
	if len(l.Enrolments) != len(want) {
		t.Errorf("%d places are held, want %d", len(l.Enrolments), len(want))
	}
	for p, name := range want {
		k := key(t, name).Public()
		if got, ok := l.Holder(p); !ok || got != k {
			t.Errorf("the %s is held by %v (%v), want %s", p, got, ok, name)
		}
		if got, ok := r.Lookup(k); !ok || got != p {
			t.Errorf("%s is the %s (%v), want %s", name, got, ok, p)
		}
	}
}

// entries counts the entries of a log.
func entries(t *testing.T, log store.Log) int {
	t.Helper()
	n := 0
	if err := log.Entries(func([]byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestATicketIsRedeemedOnce(t *testing.T) {
	w := newWorld(t, 3)
	r, log := w.registry()
	w.redeem(r, w.enrol(client(1), 1, "alice"))
	for range 2 { // before and after a restart
		want := map[admission.Place]string{client(1): "alice"}
		holds(t, r, want)
		if err := r.Redeem(founded, w.enrol(client(1), 1, "bob")); !errors.Is(err, admission.ErrRedeemed) {
			t.Errorf("a second identity with the same ticket: %v", err)
		}
		if err := r.Redeem(founded, w.enrol(client(1), 2, "bob")); !errors.Is(err, admission.ErrHeld) {
			t.Errorf("another ticket of the same place: %v", err)
		}
		if err := r.Redeem(founded, w.enrol(client(1), 2, "alice")); !errors.Is(err, admission.ErrHeld) {
			t.Errorf("another ticket of the same place for the same identity: %v", err)
		}
		if err := r.Redeem(founded, w.enrol(client(2), 1, "alice")); !errors.Is(err, admission.ErrIdentityUsed) {
			t.Errorf("the same identity in another place: %v", err)
		}
		if err := r.Redeem(founded, w.enrol(admission.ServerPlace, 1, "alice")); !errors.Is(err, admission.ErrIdentityUsed) {
			t.Errorf("the same identity in another role: %v", err)
		}
		// The answer was lost, and it is asked again, years later.
		if err := r.Redeem(end.AddDate(10, 0, 0), w.enrol(client(1), 1, "alice")); err != nil {
			t.Errorf("the same again: %v", err)
		}
		holds(t, r, want)
		if _, ok := r.Lookup(key(t, "bob").Public()); ok {
			t.Error("bob is in")
		}
		r = w.reopen(log)
	}
	if n := entries(t, log); n != 1 {
		t.Errorf("%d entries are kept of one enrolment", n)
	}
}

// A ticket is good until its end and the tolerance for clocks, both included.
func TestTicketsExpire(t *testing.T) {
	w := newWorld(t, 3)
	last := end.Add(5 * time.Minute) // as documented
	for _, c := range []struct {
		now  time.Time
		want error
	}{
		{founded.AddDate(-1, 0, 0), nil}, {end, nil}, {last, nil}, {last.In(time.FixedZone("somewhere", 3600)), nil},
		{last.Add(1), admission.ErrExpired}, {end.AddDate(1, 0, 0), admission.ErrExpired},
	} {
		r, _ := w.registry()
		if err := r.Redeem(c.now, w.enrol(client(1), 1, "alice")); !errors.Is(err, c.want) {
			t.Errorf("redeemed at %v: %v, want %v", c.now, err, c.want)
		}
		if _, ok := r.Lookup(key(t, "alice").Public()); ok != (c.want == nil) {
			t.Errorf("redeemed at %v, alice is in: %v", c.now, ok)
		}
	}
}

func TestWhatIsNotSignedIsNotRedeemed(t *testing.T) {
	w := newWorld(t, 3)
	r, _ := w.registry()
	e := w.enrol(client(1), 1, "alice")
	e.Identity = key(t, "mallory").Public()
	if err := r.Redeem(founded, e); !errors.Is(err, admission.ErrSignature) {
		t.Error(err)
	}
	holds(t, r, nil)
}

// broken is a log that cannot be written to, until it is mended.
type broken struct {
	store.Log
	mended bool
}

var errDisk = errors.New("the disk is full")

func (b *broken) Append(entries ...[]byte) error {
	if b.mended {
		return b.Log.Append(entries...)
	}
	return errDisk
}

// A change that is not durable has not happened, except a revocation.
func TestNothingHappensWithoutTheDisk(t *testing.T) {
	w := newWorld(t, 3)
	_, log := w.registry()
	w.redeem(w.reopen(log), w.enrol(client(1), 1, "alice"))
	disk := &broken{Log: log}
	r := w.reopen(disk)
	alice := map[admission.Place]string{client(1): "alice"}
	if err := r.Redeem(founded, w.enrol(client(2), 1, "bob")); !errors.Is(err, errDisk) {
		t.Errorf("redeemed without a disk: %v", err)
	}
	holds(t, r, alice)
	other, _ := w.registry()
	w.redeem(other, w.enrol(client(1), 1, "alice"), w.enrol(client(2), 1, "bob"))
	if _, err := r.Update(other.List()); !errors.Is(err, errDisk) {
		t.Errorf("updated without a disk: %v", err)
	}
	holds(t, r, alice)
}

// A revoked party is out even if the disk fails. It stays out when the disk works again and another
// party takes the place.
func TestRevocationsHoldWithoutTheDisk(t *testing.T) {
	w := newWorld(t, 3)
	_, log := w.registry()
	alice, bob := w.enrol(client(1), 1, "alice"), w.enrol(client(2), 1, "bob")
	w.redeem(w.reopen(log), alice, bob)
	disk := &broken{Log: log}
	r := w.reopen(disk)
	first := w.revoke(nil, admission.RevocationOf(alice))
	if out, err := r.Revoke(first); !errors.Is(err, errDisk) || !reflect.DeepEqual(out, []*admission.Enrolment{alice}) {
		t.Errorf("revoked without a disk: %v, %v; want alice and %v", out, err, errDisk)
	}
	if out, err := r.Revoke(first); !errors.Is(err, errDisk) || out != nil {
		t.Errorf("revoked once more without a disk: %v, %v; want nobody and %v", out, err, errDisk)
	}
	second := w.revoke(first, admission.RevocationOf(bob))
	if out, err := r.Revoke(second); !errors.Is(err, errDisk) || !reflect.DeepEqual(out, []*admission.Enrolment{bob}) {
		t.Errorf("revoked without a disk: %v, %v; want bob and %v", out, err, errDisk)
	}
	holds(t, r, nil)
	holds(t, w.reopen(log), map[admission.Place]string{client(1): "alice", client(2): "bob"}) // a restart before the disk works
	disk.mended = true
	w.redeem(r, w.enrol(client(1), 2, "carol"))
	for range 2 { // now and after a restart
		holds(t, r, map[admission.Place]string{client(1): "carol"})
		r = w.reopen(log)
	}
	if !reflect.DeepEqual(r.Revocations(), second) {
		t.Errorf("known are %+v, want %+v", r.Revocations(), second)
	}
}

// Revocations that could not be written are, once the disk works, when they are read again.
func TestRevocationsAreWrittenWhenTheDiskWorks(t *testing.T) {
	w := newWorld(t, 3)
	_, log := w.registry()
	alice := w.enrol(client(1), 1, "alice")
	w.redeem(w.reopen(log), alice)
	disk := &broken{Log: log}
	r := w.reopen(disk)
	v := w.revoke(nil, admission.RevocationOf(alice))
	if _, err := r.Revoke(v); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	disk.mended = true
	before := entries(t, log)
	for range 2 {
		if out, err := r.Revoke(v); err != nil || out != nil {
			t.Errorf("put out %v, %v; want nobody more", out, err)
		}
	}
	if n := entries(t, log) - before; n != 1 {
		t.Errorf("they were written %d times, want once", n)
	}
	holds(t, w.reopen(log), nil)
}

func TestRevoke(t *testing.T) {
	w := newWorld(t, 3)
	r, log := w.registry()
	alice, bob := w.enrol(client(1), 1, "alice"), w.enrol(client(2), 1, "bob")
	w.redeem(r, w.enrol(admission.ServerPlace, 1, "server"), alice, bob)
	v := w.revoke(nil, admission.RevocationOf(alice))
	out, err := r.Revoke(v)
	if err != nil || !reflect.DeepEqual(out, []*admission.Enrolment{alice}) {
		t.Fatalf("put out were %v (%v), want alice", out, err)
	}
	before := entries(t, log)
	if out, err := r.Revoke(v); err != nil || out != nil || entries(t, log) != before {
		t.Errorf("the same revocations again put out %v (%v), and were written again: %v", out, err, entries(t, log) != before)
	}
	for range 2 { // before and after a restart
		holds(t, r, map[admission.Place]string{admission.ServerPlace: "server", client(2): "bob"})
		for name, e := range map[string]*admission.Enrolment{
			"as before": alice, "with another key and the same ticket": w.enrol(client(1), 1, "alice 2"),
			"with the same key and a new ticket": w.enrol(client(1), 2, "alice"), "in another place": w.enrol(client(0), 1, "alice"),
		} {
			if err := r.Redeem(founded, e); !errors.Is(err, admission.ErrRevoked) {
				t.Errorf("alice %s: %v", name, err)
			}
		}
		r = w.reopen(log)
	}
	if got := v.NextSerial(client(1)); got != 2 {
		t.Errorf("the next ticket of client 1 is %d, want 2", got)
	}
	if got := v.NextSerial(client(0)); got != 1 {
		t.Errorf("the first ticket of client 0 is %d, want 1", got)
	}
	w.redeem(r, w.enrol(client(1), 2, "carol"))
	holds(t, r, map[admission.Place]string{admission.ServerPlace: "server", client(1): "carol", client(2): "bob"})
	holds(t, w.reopen(log), map[admission.Place]string{admission.ServerPlace: "server", client(1): "carol", client(2): "bob"})
}

// A lost invitation is void for every holder. The invited person's key is not barred: they come
// with another invitation.
func TestRevokeAnInvitation(t *testing.T) {
	w := newWorld(t, 3)
	r, _ := w.registry()
	v := w.revoke(nil, admission.Revocation{Place: client(1), Serial: 3})
	if out, err := r.Revoke(v); err != nil || out != nil {
		t.Errorf("put out %v (%v), want nobody", out, err)
	}
	for serial := range uint32(3) {
		if err := r.Redeem(founded, w.enrol(client(1), serial+1, "finder")); !errors.Is(err, admission.ErrRevoked) {
			t.Errorf("ticket %d: %v", serial+1, err)
		}
	}
	w.redeem(r, w.enrol(client(1), v.NextSerial(client(1)), "alice"))
	// Voiding the invitation puts out the party that holds the place with it. That party's key
	// stays good.
	v = w.revoke(v, admission.Revocation{Place: client(1), Serial: 4})
	if out, err := r.Revoke(v); err != nil || len(out) != 1 {
		t.Errorf("put out %v (%v), want alice", out, err)
	}
	w.redeem(r, w.enrol(client(1), v.NextSerial(client(1)), "alice"))
	holds(t, r, map[admission.Place]string{client(1): "alice"})
}

func TestRevocationsOnlyGrow(t *testing.T) {
	w := newWorld(t, 3)
	r, _ := w.registry()
	first := w.revoke(nil, admission.Revocation{Place: client(0), Serial: 1})
	second := w.revoke(first, admission.Revocation{Place: client(1), Serial: 1})
	if _, err := r.Revoke(second); err != nil {
		t.Fatal(err)
	}
	// The operator forgot what was revoked, and lost the file.
	fork := w.revoke(first, admission.Revocation{Place: client(2), Serial: 1})
	forgot := w.revoke(fork, admission.Revocation{Place: client(2), Serial: 2})
	none := *second
	none.Serial, none.Signature = 0, admission.Signature{}
	none.Signature = sign(w.operator, none.Hash())
	hers := *second
	hers.Serial, hers.Signature = 3, sign(key(t, "mallory"), admission.Hash{})
	other := newWorld(t, 3)
	other.federation, _ = admission.NewFederation(w.operator, "Other", 3, founded, simulated.New(1, "federation"))
	for _, c := range []struct {
		name string
		v    *admission.Revocations
		want error
	}{
		{"older", first, admission.ErrOutdated}, {"two of one serial", fork, admission.ErrForgotten}, {"forgetting", forgot, admission.ErrForgotten},
		{"not signed", &hers, admission.ErrSignature}, {"none", nil, admission.ErrMalformed}, {"not counted", &none, admission.ErrMalformed},
		{"of another federation", other.revoke(nil, admission.Revocation{Place: client(0), Serial: 1}), admission.ErrFederation},
	} {
		if out, err := r.Revoke(c.v); !errors.Is(err, c.want) || out != nil {
			t.Errorf("%s: %v (%v), want %v", c.name, out, err, c.want)
		}
	}
	if got := r.Revocations(); !reflect.DeepEqual(got, second) {
		t.Errorf("known are %+v, want %+v", got, second)
	}
	third := w.revoke(second, admission.Revocation{Place: client(2), Serial: 1})
	if _, err := r.Revoke(third); err != nil {
		t.Error(err)
	}
	// The registry keeps its own copies of the values that it takes and returns.
	r.Revocations().Entries[0].Serial = 9
	third.Entries[0].Serial = 9
	if got := r.Revocations(); got.Entries[0].Serial != 1 {
		t.Error("the registry's revocations were changed from outside")
	}
}

// A log that was not written by a registry of this federation is not believed.
func TestLogsOfOthers(t *testing.T) {
	w := newWorld(t, 3)
	text := func(doc interface{ Encode() ([]byte, error) }) []byte {
		b, err := doc.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	forged := w.enrol(client(2), 1, "mallory")
	forged.Ticket.Place = client(1)
	older := w.revoke(nil, admission.Revocation{Place: client(0), Serial: 1})
	newer := w.revoke(older, admission.Revocation{Place: client(2), Serial: 1})
	hers := *older
	hers.Entries = newer.Entries
	alice := text(w.enrol(client(1), 1, "alice"))
	for _, c := range []struct {
		name    string
		entries [][]byte
		want    error
	}{
		{"no document", [][]byte{[]byte("text")}, admission.ErrMalformed},
		{"another document", [][]byte{text(w.federation)}, admission.ErrMalformed},
		{"a torn one", [][]byte{alice, text(w.enrol(client(2), 1, "bob"))[:300]}, admission.ErrMalformed},
		{"a forged enrolment", [][]byte{text(forged)}, admission.ErrSignature},
		{"forged revocations", [][]byte{text(&hers)}, admission.ErrSignature},
		{"a place twice", [][]byte{alice, text(w.enrol(client(1), 1, "bob"))}, admission.ErrRedeemed},
		{"revocations going back", [][]byte{text(newer), text(older)}, admission.ErrOutdated},
		{"after it was revoked", [][]byte{text(newer), text(w.enrol(client(2), 1, "bob"))}, admission.ErrRevoked},
	} {
		log := store.NewMemoryLog()
		if err := log.Append(c.entries...); err != nil {
			t.Fatal(err)
		}
		if r, err := admission.OpenRegistry(w.federation, log); !errors.Is(err, c.want) || r != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	f := *w.federation
	f.Clients = 4
	if _, err := admission.OpenRegistry(&f, store.NewMemoryLog()); !errors.Is(err, admission.ErrSignature) {
		t.Errorf("the registry of a forged federation: %v", err)
	}
}

// Connections come and go while parties enrol; of two who race for one ticket, one
// has it. Meant for the race detector.
func TestRegistryIsConcurrent(t *testing.T) {
	w := newWorld(t, 3)
	r, _ := w.registry()
	names := []string{"alice", "bob"}
	errs := make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		e := w.enrol(client(1), 1, name)
		wait.Go(func() { errs[i] = r.Redeem(founded, e) })
		wait.Go(func() {
			r.Lookup(e.Identity)
			r.List()
			_, _, _ = r.Text() // which others make, too
			r.Revocations()
		})
	}
	wait.Wait()
	winner := slices.Index(errs, nil)
	if winner < 0 || !errors.Is(errs[1-winner], admission.ErrRedeemed) {
		t.Fatalf("of two, the errors are %v", errs)
	}
	holds(t, r, map[admission.Place]string{client(1): names[winner]})
}

func TestRevocationsOfNothing(t *testing.T) {
	w := newWorld(t, 3)
	for name, r := range map[string]admission.Revocation{
		"a place that is not there": {Place: client(3), Serial: 1}, "no ticket": {Place: client(1)},
		"no key": {Place: client(1), Serial: 1, Identity: admission.PublicKey{31: 0x80}},
	} {
		if _, err := admission.Revoke(w.operator, w.federation, nil, r); !errors.Is(err, admission.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := admission.Revoke(w.operator, w.federation, nil); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("nothing at all: %v", err)
	}
	some := admission.Revocation{Place: client(1), Serial: 1}
	if _, err := admission.Revoke(key(t, "mallory"), w.federation, nil, some); !errors.Is(err, admission.ErrFederation) {
		t.Errorf("revoked by mallory: %v", err)
	}
	forged := w.revoke(nil, some)
	forged.Entries[0].Serial = 2
	if _, err := admission.Revoke(w.operator, w.federation, forged, some); !errors.Is(err, admission.ErrSignature) {
		t.Errorf("added to a forged document: %v", err)
	}
	if v := w.revoke(nil, some, some); len(v.Entries) != 1 {
		t.Errorf("the same twice makes %d entries", len(v.Entries))
	}
}

// The text that every party is shown is that list's text, whichever way the list came about.
func TestTextFollowsTheList(t *testing.T) {
	w := newWorld(t, 3)
	r, _ := w.registry()
	other, _ := w.registry()
	e := w.enrol(client(1), 1, "alice")
	revocations, err := admission.Revoke(w.operator, w.federation, nil, admission.RevocationOf(e))
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	show := func(r *admission.Registry, want map[admission.Place]string) {
		t.Helper()
		holds(t, r, want) // which compares the text with the list
		text, _, failed := r.Text()
		if failed != nil {
			t.Fatal(failed)
		}
		shown[string(text)] = true
	}
	update := func() {
		t.Helper()
		if _, failed := other.Update(r.List()); failed != nil {
			t.Fatal(failed)
		}
	}
	show(r, nil)
	show(other, nil)
	w.redeem(r, e)
	update()
	show(r, map[admission.Place]string{client(1): "alice"})
	show(other, map[admission.Place]string{client(1): "alice"})
	w.redeem(r, w.enrol(client(2), 1, "bob"))
	update()
	show(r, map[admission.Place]string{client(1): "alice", client(2): "bob"})
	show(other, map[admission.Place]string{client(1): "alice", client(2): "bob"})
	if _, err = r.Revoke(revocations); err != nil {
		t.Fatal(err)
	}
	update()
	show(r, map[admission.Place]string{client(2): "bob"})
	show(other, map[admission.Place]string{client(2): "bob"})
	if len(shown) != 4 {
		t.Errorf("%d texts were shown, want that of each of 4 lists", len(shown))
	}
}
