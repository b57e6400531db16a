package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// A revoked client is put out although the tickets, which are copied along, cannot be read.
func TestRevocationsAreReadWhateverTheTicketsAre(t *testing.T) {
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "3")...)
	key, err := admission.ReadKey(o.path("aggregator.key"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := admission.ReadFile(o.path("federation.json"), admission.ParseFederation)
	if err != nil {
		t.Fatal(err)
	}
	r, err := admission.OpenRegistry(f, store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	i, err := admission.ReadInvitation(o.path("out/client-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := i.Accept(key) // any key does
	if err != nil {
		t.Fatal(err)
	}
	if err = r.Redeem(time.Now(), &m.Enrolment); err != nil {
		t.Fatal(err)
	}
	a, err := hub.NewAggregator(t.Context(), hub.AggregatorConfig{Identity: key, Federation: f, Registry: r,
		State: o.dir, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close() //nolint:errcheck // nothing is left to be lost
	must(t, o.invite("--revoke", "client 1")...)
	half := filepath.Join(o.dir, "half.json")
	if err = os.WriteFile(half, []byte(`{"fedsim-tickets-v1":[`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := aggregatorCmd{Tickets: half, Revocations: o.path("out/revocations.json")}
	if err = c.load(a, f); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("half a file of tickets: %v", err)
	}
	if place, in := r.Lookup(key.Public()); in {
		t.Errorf("the %s is still in", place)
	}
}
