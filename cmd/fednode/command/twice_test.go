//go:build unix

package command

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// An aggregator whose key is another than its list names ends with both names, also without --invitation.
func TestAggregatorOfAnotherKey(t *testing.T) {
	var keys [3]admission.PrivateKey
	for k := range keys {
		var err error
		if keys[k], err = admission.GenerateKey(simulated.New(uint64(k), "key")); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f, err := admission.NewFederation(keys[0], "Films", 2, now, simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	i, err := admission.Invite(keys[0], f, admission.Offer{Place: admission.AggregatorPlace, Serial: 1, NotAfter: now.Add(time.Hour),
		Contact: admission.Contact{Addresses: []string{"/ip4/192.0.2.1/tcp/7946"}, Peer: "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp"}}, simulated.New(1, "ticket"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := admission.OpenRegistry(f, store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	m, err := i.Accept(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	if err = r.Redeem(now, &m.Enrolment); err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	c := &aggregatorCmd{State: "state"}
	if err = c.enrol(r, keys[1], &log); err != nil {
		t.Errorf("the key of the list: %v", err)
	}
	err = c.enrol(r, keys[2], &log)
	if err == nil || !cli.IsMisuse(err) || !strings.Contains(err.Error(), keys[1].Public().String()) || !strings.Contains(err.Error(), keys[2].Public().String()) {
		t.Errorf("another key: %v", err)
	}
}

func TestOneProcessForAKey(t *testing.T) {
	path := t.TempDir() + "/key"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := party.LockKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = party.LockKey(path); err == nil || !cli.IsMisuse(err) {
		t.Errorf("a second process: %v", err)
	}
	unlock()
	if again, failed := party.LockKey(path); failed != nil {
		t.Errorf("after the first: %v", failed)
	} else {
		again()
	}
}
