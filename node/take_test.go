package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// unasked is a trainer of whom nothing is asked.
type unasked struct{ client.Trainer }

// deployed holds the documents of the operator, the server and the aggregator's registry of a
// federation, without a network.
type deployed struct {
	t                *testing.T
	operator, server admission.PrivateKey
	federation       *admission.Federation
	registry         *admission.Registry // the aggregator's
	terms            session.Terms
	serial           uint32 // of invitations
}

func newDeployed(t *testing.T, clients int) *deployed {
	t.Helper()
	d := &deployed{t: t, serial: 1, terms: nodetest.Terms()}
	d.operator, d.server, d.terms.Cohort.Clients = d.key("operator"), d.key("server"), clients
	var err error
	d.federation, err = admission.NewFederation(d.operator, "Test", clients, time.Unix(0, 0), simulated.New(1, "federation"))
	d.must(err)
	d.registry, err = admission.OpenRegistry(d.federation, store.NewMemoryLog())
	d.must(err)
	return d
}

func (d *deployed) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *deployed) key(name string) admission.PrivateKey {
	d.t.Helper()
	k, err := admission.GenerateKey(simulated.New(1, name))
	d.must(err)
	return k
}

func (d *deployed) enrolled(p admission.Place, k admission.PrivateKey) *admission.Enrolment {
	d.t.Helper()
	i, err := admission.Invite(d.operator, d.federation, admission.Offer{Place: p, Serial: d.serial, NotAfter: time.Unix(1, 0),
		Contact: admission.Contact{Peer: "somebody", Addresses: []string{"somewhere"}}}, simulated.New(1, "invitation"))
	d.must(err)
	m, err := i.Accept(k)
	d.must(err)
	return &m.Enrolment
}

func (d *deployed) description() *session.Signed {
	d.t.Helper()
	p, err := session.Sign(&session.Descriptor{Federation: d.federation.Hash(), List: d.registry.List().Hash(), Terms: d.terms}, d.server)
	d.must(err)
	return p
}

// A client continues in a session only while the present server has signed its description, for the
// present list. An aggregator that has shown it another server, or a revocation, cannot have it
// back in the earlier session.
func TestSessionIsTheNewestServersOnly(t *testing.T) {
	d := newDeployed(t, 4)
	place, own, hub, must := admission.ClientPlace(1), d.key("client"), d.registry, d.must
	before := d.enrolled(admission.ServerPlace, d.server)
	e := d.enrolled(place, own)
	must(hub.Redeem(time.Unix(0, 0), before))
	must(hub.Redeem(time.Unix(0, 0), e))
	registry, err := admission.OpenRegistry(d.federation, store.NewMemoryLog())
	must(err)
	ledger, err := store.NewLedger(store.NewMemoryLog())
	must(err)
	id, err := peer.IDOf(d.server.Public().Ed25519()) // any will do, since it is not dialled
	must(err)
	c, err := NewClient(ClientConfig{Member: Member{Identity: own, Registry: registry, Log: zerolog.Nop(), Workers: 1,
		Membership: &admission.Membership{Federation: *d.federation, Enrolment: *e, Contact: admission.Contact{Peer: id.String()}}},
		Ledger: ledger, Entropy: simulated.New(1, "client"),
		Open: func([]byte) (*Job, error) {
			return &Job{Terms: &d.terms, Train: func(context.Context) (client.Trainer, error) { return unasked{}, nil }}, nil
		}})
	must(err)
	shown := func(p *session.Signed, ended bool) *session.Signed {
		text, _, failed := hub.Text()
		must(failed)
		return &session.Signed{Descriptor: p.Descriptor, Signature: p.Signature, List: text, Ended: ended}
	}
	old := d.description()
	first, err := c.joinSession(t.Context(), shown(old, false))
	must(err)
	defer func() { c.part.leave() }()
	if again, failed := c.joinSession(t.Context(), shown(old, false)); failed != nil || again != first {
		t.Errorf("the same session after a broken line: %v, and another part in it: %v", failed, again != first)
	}
	v, err := admission.Revoke(d.operator, d.federation, nil, RevocationOf(before))
	must(err)
	_, err = hub.Revoke(v)
	must(err)
	d.server = d.key("another server")
	d.serial = 2
	must(hub.Redeem(time.Unix(0, 0), d.enrolled(admission.ServerPlace, d.server)))
	for name, s := range map[string]*session.Signed{"as before": shown(old, false), "said to be over": shown(old, true)} {
		if _, err = c.joinSession(t.Context(), s); !errors.Is(err, session.ErrSession) {
			t.Errorf("the session of a server that is revoked, %s: %v, want %v", name, err, session.ErrSession)
		}
	}
	second, err := c.joinSession(t.Context(), shown(d.description(), false))
	if err != nil || second == first {
		t.Errorf("the session of the server that there is: %v, and the same part in it: %v", err, second == first)
	}
	// A client has come, and the aggregator shows again what the server signed for the list before.
	known := d.description()
	d.serial = 1
	must(hub.Redeem(time.Unix(0, 0), d.enrolled(admission.ClientPlace(2), d.key("another client"))))
	if _, err = c.joinSession(t.Context(), shown(known, false)); !errors.Is(err, session.ErrSession) {
		t.Errorf("a session of another list than there is: %v, want %v", err, session.ErrSession)
	}
}
