package admission_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// world is a federation with an operator who answers.
type world struct {
	t          testing.TB
	operator   admission.PrivateKey
	federation *admission.Federation
}

var (
	founded = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	end     = founded.Add(24 * time.Hour)
)

func newWorld(t testing.TB, clients int) *world {
	t.Helper()
	w := &world{t: t, operator: key(t, "operator")}
	var err error
	w.federation, err = admission.NewFederation(w.operator, "Test", clients, founded, simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// key is the private key of a name.
func key(t testing.TB, name string) admission.PrivateKey {
	t.Helper()
	k, err := admission.GenerateKey(simulated.New(1, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func client(id int) admission.Place { return admission.ClientPlace(protocol.ClientID(id)) }

var contact = admission.Contact{Addresses: []string{"/ip4/192.0.2.1/tcp/4001"}, Peer: "12D3KooWExample"}

func (w *world) invite(p admission.Place, serial uint32) *admission.Invitation {
	w.t.Helper()
	i, err := admission.Invite(w.operator, w.federation, admission.Offer{Place: p, Serial: serial, NotAfter: end, Contact: contact},
		simulated.New(1, fmt.Sprintf("ticket %v %d", p, serial)))
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

// accept redeems a ticket of the place for the identity of a name.
func (w *world) accept(p admission.Place, serial uint32, name string) *admission.Membership {
	w.t.Helper()
	m, err := w.invite(p, serial).Accept(key(w.t, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) enrol(p admission.Place, serial uint32, name string) *admission.Enrolment {
	w.t.Helper()
	return &w.accept(p, serial, name).Enrolment
}

func (w *world) revoke(old *admission.Revocations, entries ...admission.Revocation) *admission.Revocations {
	w.t.Helper()
	v, err := admission.Revoke(w.operator, w.federation, old, entries...)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// registry is a registry in memory, and its log.
func (w *world) registry() (*admission.Registry, store.Log) {
	w.t.Helper()
	log := store.NewMemoryLog()
	return w.reopen(log), log
}

func (w *world) reopen(log store.Log) *admission.Registry {
	w.t.Helper()
	r, err := admission.OpenRegistry(w.federation, log)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) redeem(r *admission.Registry, entries ...*admission.Enrolment) {
	w.t.Helper()
	for _, e := range entries {
		if err := r.Redeem(founded, e); err != nil {
			w.t.Fatal(err)
		}
	}
}

// full is a registry in which every place is held, by the identities "server",
// "aggregator", "client 0" and so on.
func (w *world) full() *admission.Registry {
	w.t.Helper()
	r, _ := w.registry()
	places := []admission.Place{admission.ServerPlace, admission.AggregatorPlace}
	for i := range w.federation.Clients {
		places = append(places, client(i))
	}
	for _, p := range places {
		w.redeem(r, w.enrol(p, 1, p.String()))
	}
	return r
}

// copyOf returns a deep copy of a list.
func copyOf(t testing.TB, l *admission.List) *admission.List {
	t.Helper()
	text, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, err := admission.ParseList(bytes.Clone(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
