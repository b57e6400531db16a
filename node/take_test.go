package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// unasked is a trainer of whom nothing is asked.
type unasked struct{ client.Trainer }

// A client goes on in a session only while its description is of whoever is the server by
// now, and of the list that there is: an aggregator that has shown it another server, or
// who was put out, cannot have it back in the session before.
func TestSessionIsTheNewestServersOnly(t *testing.T) {
	d := newDoor(t, 4)
	own, err := admission.GenerateKey(simulated.New(1, "client"))
	if err != nil {
		t.Fatal(err)
	}
	place, hub := admission.ClientPlace(1), d.a.cfg.Registry
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	before := d.enrolled(admission.ServerPlace, d.server)
	e := d.enrolled(place, own)
	must(hub.Redeem(time.Unix(0, 0), before))
	must(hub.Redeem(time.Unix(0, 0), e))
	registry, err := admission.OpenRegistry(d.a.cfg.Federation, store.NewMemoryLog())
	must(err)
	ledger, err := store.NewLedger(store.NewMemoryLog())
	must(err)
	id, err := PeerID(d.server.Public().Ed25519()) // any will do, nobody is dialled
	must(err)
	c, err := NewClient(ClientConfig{Identity: own, Registry: registry, Ledger: ledger, Entropy: simulated.New(1, "client"), Log: zerolog.Nop(), Workers: 1,
		Membership: &admission.Membership{Federation: *d.a.cfg.Federation, Enrolment: *e, Contact: admission.Contact{Peer: id.String()}},
		Open: func([]byte) (*Job, error) {
			return &Job{Terms: &d.terms, Train: func(context.Context) (client.Trainer, error) { return unasked{}, nil }}, nil
		}})
	must(err)
	shown := func(p *session, ended bool) *session {
		text, _, failed := hub.Text()
		must(failed)
		return &session{Descriptor: p.Descriptor, Signature: p.Signature, List: text, Ended: ended}
	}
	old := d.description()
	first, err := c.take(t.Context(), shown(old, false))
	must(err)
	defer func() { c.part.leave() }()
	if again, failed := c.take(t.Context(), shown(old, false)); failed != nil || again != first {
		t.Errorf("the same session after a broken line: %v, and another part in it: %v", failed, again != first)
	}
	v, err := admission.Revoke(d.operator, d.a.cfg.Federation, nil, admission.RevocationOf(before))
	must(err)
	_, err = hub.Revoke(v)
	must(err)
	if d.server, err = admission.GenerateKey(simulated.New(1, "another server")); err != nil {
		t.Fatal(err)
	}
	d.serial = 2
	must(hub.Redeem(time.Unix(0, 0), d.enrolled(admission.ServerPlace, d.server)))
	for name, s := range map[string]*session{"as before": shown(old, false), "said to be over": shown(old, true)} {
		if _, err = c.take(t.Context(), s); !errors.Is(err, ErrSession) {
			t.Errorf("the session of a server that is revoked, %s: %v, want %v", name, err, ErrSession)
		}
	}
	second, err := c.take(t.Context(), shown(d.description(), false))
	if err != nil || second == first {
		t.Errorf("the session of the server that there is: %v, and the same part in it: %v", err, second == first)
	}
	// Somebody has come, and what the server signed for the list before is shown again.
	known := d.description()
	d.serial = 1
	another, err := admission.GenerateKey(simulated.New(1, "another client"))
	must(err)
	must(hub.Redeem(time.Unix(0, 0), d.enrolled(admission.ClientPlace(2), another)))
	if _, err = c.take(t.Context(), shown(known, false)); !errors.Is(err, ErrSession) {
		t.Errorf("a session of another list than there is: %v, want %v", err, ErrSession)
	}
}
