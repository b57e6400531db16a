package admission_test

import (
	"crypto/ed25519"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

func TestIdentities(t *testing.T) {
	w := newWorld(t, 4)
	r, _ := w.registry()
	w.redeem(r, w.enrol(client(3), 1, "dora"), w.enrol(admission.ServerPlace, 1, "server"), w.enrol(client(1), 1, "alice"))
	l := r.List()
	if err := l.Verify(w.operator.Public()); err != nil {
		t.Fatal(err)
	}
	keys := l.Identities()
	if len(keys) != 4 || !keys[1].Equal(key(t, "alice").Public().Ed25519()) || !keys[3].Equal(key(t, "dora").Public().Ed25519()) {
		t.Errorf("the identities are %x", keys)
	}
	if got, want := l.Vacant(), []protocol.ClientID{0, 2}; !slices.Equal(got, want) {
		t.Errorf("vacant are %v, want %v", got, want)
	}
	// The secure sum takes a vacant place's key as it takes any, and nothing
	// verifies with it: it is not a point (the verifier of a signature needs one).
	for _, id := range l.Vacant() {
		if len(keys[id]) != ed25519.PublicKeySize {
			t.Fatalf("the key of client %d has %d bytes", id, len(keys[id]))
		}
		if _, err := new(edwards25519.Point).SetBytes(keys[id]); err == nil {
			t.Errorf("the key of the vacant client %d is a point: %x", id, keys[id])
		}
		if ed25519.Verify(keys[id], []byte("message"), make([]byte, ed25519.SignatureSize)) {
			t.Errorf("a signature of zeros is taken for one of the vacant client %d", id)
		}
	}
	keys[0][0]++
	if l.Identities()[0][0] == keys[0][0] || l.Identities()[2][0] == keys[0][0] {
		t.Error("a vacant key that was handed out is everybody's")
	}
	if full := w.full().List(); len(full.Vacant()) != 0 {
		t.Errorf("of a full federation, %v are vacant", full.Vacant())
	}
	// A list may say anything before it is verified.
	bad := copyOf(t, l)
	bad.Enrolments[1].Ticket.Place = client(1000)
	if got := bad.Identities(); len(got) != 4 {
		t.Errorf("%d identities of 4 clients", len(got))
	}
}

// The secure sum accepts the identities in active mode: a client that is on the list can take part,
// with its own key and in its own place only.
func TestIdentitiesFitTheSecureSum(t *testing.T) {
	w := newWorld(t, 3)
	l := w.full().List()
	params := secagg.Params{Mode: secagg.Active, Rounds: 1, Identities: l.Identities()}
	party := func(id protocol.ClientID, name string) error {
		_, err := secagg.NewParty(secagg.PartyConfig{ID: id, Params: params, Entropy: simulated.New(1, name), Identity: key(t, name).Ed25519()})
		return err
	}
	if err := party(1, "client 1"); err != nil {
		t.Error(err)
	}
	if err := party(2, "client 1"); err == nil {
		t.Error("client 1 takes part as client 2")
	}
}

// Lists that an aggregator might make of what it has: none passes, with the
// signatures of the operator, of all tickets and of all identities untouched.
func TestListsThatTheOperatorDidNotMake(t *testing.T) {
	w := newWorld(t, 3)
	full := w.full().List()
	if err := full.Verify(w.operator.Public()); err != nil {
		t.Fatal(err)
	}
	alice := w.enrol(client(1), 2, "client 2")
	signed := w.revoke(nil, admission.RevocationOf(w.enrol(client(1), 1, "client 1")))
	for _, c := range []struct {
		name   string
		change func(*admission.List)
		want   error
	}{
		{"more clients", func(l *admission.List) { l.Federation.Clients = 4 }, admission.ErrSignature},
		{"two places swapped", func(l *admission.List) {
			l.Enrolments[2].Ticket.Place, l.Enrolments[3].Ticket.Place = client(1), client(0)
			l.Enrolments[2], l.Enrolments[3] = l.Enrolments[3], l.Enrolments[2]
		}, admission.ErrSignature},
		{"out of order", func(l *admission.List) { slices.Reverse(l.Enrolments) }, admission.ErrMalformed},
		{"one twice", func(l *admission.List) { l.Enrolments = append(l.Enrolments, l.Enrolments[4]) }, admission.ErrMalformed},
		{"one identity in two places", func(l *admission.List) { l.Enrolments[3] = alice }, admission.ErrIdentityUsed},
		{"another identity", func(l *admission.List) { l.Enrolments[3].Identity = key(t, "mallory").Public() }, admission.ErrSignature},
		{"a ticket of its own", func(l *admission.List) {
			e := l.Enrolments[3]
			e.Ticket.Key = key(t, "ticket").Public()
			*e = *redeem(e.Ticket, key(t, "ticket"), key(t, "mallory"))
		}, admission.ErrSignature},
		{"another serial", func(l *admission.List) { l.Enrolments[3].Ticket.Serial = 2 }, admission.ErrSignature},
		{"somebody revoked", func(l *admission.List) { l.Revocations = signed }, admission.ErrRevoked},
		{"revocations of its own", func(l *admission.List) {
			v := *signed
			v.Entries = []admission.Revocation{{Place: client(0), Serial: 1}}
			l.Revocations, l.Enrolments = &v, slices.Delete(l.Enrolments, 2, 3)
		}, admission.ErrSignature},
		{"revocations out of order", func(l *admission.List) {
			v := *w.revoke(nil, admission.Revocation{Place: client(0), Serial: 7}, admission.Revocation{Place: client(1), Serial: 7})
			slices.Reverse(v.Entries)
			l.Revocations, l.Enrolments = &v, l.Enrolments[:2]
		}, admission.ErrMalformed},
	} {
		l := copyOf(t, full)
		c.change(l)
		if err := l.Verify(w.operator.Public()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		// A party that knows most of the list already is no easier to convince.
		known := w.full()
		before := known.List()
		if _, err := known.Update(l); err == nil {
			t.Errorf("%s: taken by a party that knows the list", c.name)
		}
		if after := known.List(); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: what was refused changed the registry", c.name)
		}
	}
	if err := full.Verify(key(t, "mallory").Public()); !errors.Is(err, admission.ErrFederation) {
		t.Errorf("the list of another operator: %v", err)
	}
}

func TestListHash(t *testing.T) {
	w := newWorld(t, 3)
	full := w.full().List()
	seen := map[admission.Hash]string{full.Hash(): "the list"}
	for name, change := range map[string]func(*admission.List){
		"federation": func(l *admission.List) { l.Federation.Clients++ },
		"revocations": func(l *admission.List) {
			l.Revocations = w.revoke(nil, admission.Revocation{Place: client(0), Serial: 1})
		},
		"their serial": func(l *admission.List) {
			v := w.revoke(nil, admission.Revocation{Place: client(0), Serial: 1})
			l.Revocations = w.revoke(v, v.Entries...)
		},
		"their identity": func(l *admission.List) {
			l.Revocations = w.revoke(nil, admission.Revocation{Place: client(0), Serial: 1, Identity: key(t, "bob").Public()})
		},
		"place":    func(l *admission.List) { l.Enrolments[0].Ticket.Place = admission.AggregatorPlace },
		"client":   func(l *admission.List) { l.Enrolments[2].Ticket.Place = client(1) },
		"serial":   func(l *admission.List) { l.Enrolments[2].Ticket.Serial++ },
		"identity": func(l *admission.List) { l.Enrolments[2].Identity[0]++ },
		"number":   func(l *admission.List) { l.Enrolments = l.Enrolments[:4] },
	} {
		l := copyOf(t, full)
		change(l)
		if other, ok := seen[l.Hash()]; ok {
			t.Errorf("with another %s the list hashes like %s", name, other)
		}
		seen[l.Hash()] = name
	}
	// The hash leaves signatures out, since a key can sign one text in many ways.
	l := copyOf(t, full)
	l.Enrolments[3].Possession[0]++
	if l.Hash() != full.Hash() {
		t.Error("the hash depends on how a signature is spelt")
	}
}

// The list that an aggregator shows a party only grows, except that the operator may revoke. A
// restart of the party changes nothing in that.
func TestUpdate(t *testing.T) {
	w := newWorld(t, 3)
	aggregator, _ := w.registry()
	party, log := w.registry()
	names := map[admission.Place]string{}
	show := func() []*admission.Enrolment {
		t.Helper()
		out, err := party.Update(copyOf(t, aggregator.List()))
		if err != nil {
			t.Fatal(err)
		}
		holds(t, party, names)
		party = w.reopen(log)
		holds(t, party, names)
		if party.List().Hash() != aggregator.List().Hash() {
			t.Error("party and aggregator do not have the same list")
		}
		return out
	}
	show() // an empty list
	enter := func(p admission.Place, serial uint32, name string) {
		w.redeem(aggregator, w.enrol(p, serial, name))
		names[p] = name
	}
	enter(client(1), 1, "alice")
	enter(admission.ServerPlace, 1, "server")
	show()
	enter(client(0), 1, "bob")
	show()
	show() // the same again

	before := copyOf(t, aggregator.List())
	v := w.revoke(nil, admission.RevocationOf(w.enrol(client(1), 1, "alice")))
	if _, err := aggregator.Revoke(v); err != nil {
		t.Fatal(err)
	}
	delete(names, client(1))
	enter(client(1), 2, "carol")
	if out := show(); len(out) != 1 || out[0].Identity != key(t, "alice").Public() {
		t.Errorf("put out were %v, want alice", out)
	}
	if _, err := party.Update(before); !errors.Is(err, admission.ErrOutdated) {
		t.Errorf("the list of before the revocation: %v", err)
	}
	holds(t, party, names)
}

// An aggregator that goes back on what it has shown, everything signed.
func TestUpdateRefusesAnotherPast(t *testing.T) {
	w := newWorld(t, 3)
	v := w.revoke(nil, admission.RevocationOf(w.enrol(client(2), 1, "client 2")))
	world := func(names map[admission.Place]string, v *admission.Revocations) *admission.List {
		r, _ := w.registry()
		for _, p := range slices.SortedFunc(maps.Keys(names), func(a, b admission.Place) int { return strings.Compare(a.String(), b.String()) }) {
			w.redeem(r, w.enrol(p, 1, names[p]))
		}
		if v != nil {
			if _, err := r.Revoke(v); err != nil {
				t.Fatal(err)
			}
		}
		return r.List()
	}
	full := map[admission.Place]string{client(0): "client 0", client(1): "client 1", client(2): "client 2"}
	but := func(p admission.Place, name string) map[admission.Place]string {
		m := maps.Clone(full)
		if delete(m, p); name != "" {
			m[p] = name
		}
		return m
	}
	other := newWorld(t, 3)
	other.federation, _ = admission.NewFederation(w.operator, "Other", 3, founded, simulated.New(1, "federation"))
	for _, c := range []struct {
		name string
		list *admission.List
		want error
	}{
		// With an invitation that was used and not deleted.
		{"another identity in a place", world(but(client(1), "mallory"), nil), admission.ErrRedeemed},
		{"nobody in a place", world(but(client(1), ""), nil), admission.ErrForgotten},
		{"two identities swapped", world(map[admission.Place]string{client(0): "client 1", client(1): "client 0", client(2): "client 2"}, nil), admission.ErrRedeemed},
		{"another federation", other.full().List(), admission.ErrFederation},
		{"nobody in a place, and revocations that say another", world(but(client(1), ""), v), admission.ErrForgotten},
	} {
		party, log := w.registry()
		if _, err := party.Update(world(full, nil)); err != nil {
			t.Fatal(err)
		}
		if out, err := party.Update(c.list); !errors.Is(err, c.want) || out != nil {
			t.Errorf("%s: %v (%v), want %v", c.name, err, out, c.want)
		}
		holds(t, party, full)
		holds(t, w.reopen(log), full)
	}
	// The party was told by the operator, and the aggregator keeps it back.
	party, _ := w.registry()
	if _, err := party.Revoke(v); err != nil {
		t.Fatal(err)
	}
	if _, err := party.Update(world(full, nil)); !errors.Is(err, admission.ErrOutdated) {
		t.Errorf("a list without the revocations that are known: %v", err)
	}
	if _, err := party.Update(world(full, v)); err != nil {
		t.Errorf("a list with them: %v", err)
	}
}

func TestMembershipCheck(t *testing.T) {
	w := newWorld(t, 2)
	server := key(t, "server").Public()
	member := func(pins admission.Contact) *admission.Membership {
		m := w.accept(client(1), 1, "client 1")
		m.Contact.Server, m.Contact.Aggregator = pins.Server, pins.Aggregator
		return m
	}
	full := w.full().List()
	without := func(p admission.Place) *admission.List {
		l := copyOf(t, full)
		l.Enrolments = slices.DeleteFunc(l.Enrolments, func(e *admission.Enrolment) bool { return e.Ticket.Place == p })
		return l
	}
	// The operator replaced the server.
	r := w.full()
	if _, err := r.Revoke(w.revoke(nil, admission.RevocationOf(w.enrol(admission.ServerPlace, 1, "server")))); err != nil {
		t.Fatal(err)
	}
	w.redeem(r, w.enrol(admission.ServerPlace, 2, "server 2"))
	replaced := r.List()
	if _, err := r.Revoke(w.revoke(r.Revocations(), admission.RevocationOf(w.enrol(client(1), 1, "client 1")))); err != nil {
		t.Fatal(err)
	}
	moved := w.full()
	if _, err := moved.Revoke(w.revoke(nil, admission.Revocation{Place: client(1), Serial: 1})); err != nil {
		t.Fatal(err)
	}
	other := newWorld(t, 2)
	other.federation, _ = admission.NewFederation(w.operator, "Other", 2, founded, simulated.New(1, "federation"))
	for _, c := range []struct {
		name string
		pins admission.Contact
		list *admission.List
		want error
	}{
		{"nothing pinned", admission.Contact{}, full, nil},
		{"both pinned", admission.Contact{Server: server, Aggregator: key(t, "aggregator").Public()}, full, nil},
		{"another server pinned", admission.Contact{Server: key(t, "mallory").Public()}, full, admission.ErrPinned},
		{"another aggregator pinned", admission.Contact{Aggregator: server}, full, admission.ErrPinned},
		{"the pinned server is not there yet", admission.Contact{Server: server}, without(admission.ServerPlace), nil},
		{"the pinned server was replaced", admission.Contact{Server: server}, replaced, nil},
		{"another server than the one that was replaced", admission.Contact{Server: key(t, "mallory").Public()}, replaced, admission.ErrPinned},
		{"not on the list", admission.Contact{}, without(client(1)), admission.ErrNotEnrolled},
		{"put out", admission.Contact{}, r.List(), admission.ErrRevoked},
		{"its ticket void", admission.Contact{}, moved.List(), admission.ErrRevoked},
		{"another federation", admission.Contact{}, other.full().List(), admission.ErrFederation},
	} {
		if err := c.list.Verify(w.operator.Public()); err != nil {
			t.Fatal(err)
		}
		if err := member(c.pins).Check(c.list); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	// Another person redeemed the invitation first.
	taken, _ := w.registry()
	w.redeem(taken, w.enrol(client(1), 1, "mallory"))
	if err := member(admission.Contact{}).Check(taken.List()); !errors.Is(err, admission.ErrNotEnrolled) {
		t.Errorf("with another in its place: %v", err)
	}
}
