package command_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/check"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// enrolled is the state of a client, as an enrolment leaves it, with a charge in its ledger.
func enrolled(t *testing.T) string {
	t.Helper()
	key := func(name string) admission.PrivateKey {
		k, err := admission.GenerateKey(simulated.New(1, name))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	f, err := admission.NewFederation(key("operator"), "Test", 2, time.Unix(0, 0), simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	i, err := admission.Invite(key("operator"), f, admission.Offer{Place: admission.ClientPlace(1), Serial: 1, NotAfter: time.Unix(9, 0),
		Contact: admission.Contact{Addresses: []string{"/ip4/192.0.2.1/tcp/7946"}, Peer: "12D3KooWEdgsZJtnFJh8d1DGVUC3eCh168VTGCvKpkTxuQ9s5jHH", Server: key("server").Public()}},
		simulated.New(1, "ticket"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := i.Accept(key("client"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err = errors.Join(admission.WriteKey(at(party.IdentityFile), key("client")), store.CreateLog(at(party.RegistryFile), store.RegistryKind(f)),
		store.CreateLedger(at(party.LedgerFile), m.Enrolment.Identity), admission.WriteFile(at(party.MembershipFile), m)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A party that is told once where the aggregator has moved to dials it there from then on. Its key, its place, its ledger and the keys that
// the invitation names stay.
func TestMovedAggregatorIsKept(t *testing.T) {
	t.Parallel()
	dir := enrolled(t)
	log := zerolog.Nop()
	moved := &admission.Contact{Addresses: []string{"/ip4/192.0.2.9/tcp/1", "/dns4/new.example/tcp/2"}, Peer: "12D3KooWEdgsZJtnFJh8d1DGVUC3eCh168VTGCvKpkTxuQ9s5jHH"}
	var before *admission.Membership
	for n, at := range []*admission.Contact{nil, moved, nil} {
		m, err := party.Open(t.Context(), dir, "", protocol.Client, at, &log)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			before = m.Membership
		}
		now := m.Membership
		if moves := slices.Equal(now.Contact.Addresses, moved.Addresses); moves != (n > 0) {
			t.Errorf("start %d dials %v", n, now.Contact.Addresses)
		}
		if now.Enrolment != before.Enrolment || now.Contact.Server != before.Contact.Server || m.Ledger == nil || m.Identity.Public() != before.Enrolment.Identity {
			t.Errorf("start %d: something else has changed: %+v", n, now)
		}
		if err = m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A registry that is lost is made again, and the log says so: what is lost with it comes with the next list.
func TestLostRegistryIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir := enrolled(t)
	if err := os.Remove(filepath.Join(dir, party.RegistryFile)); err != nil {
		t.Fatal(err)
	}
	r, err := check.State(t.Context(), dir, "", false)
	if err != nil || r.Wrong != 0 {
		t.Errorf("a check calls it wrong: %+v, %v", r, err)
	}
	for _, lost := range []bool{true, false} {
		var said bytes.Buffer
		log := zerolog.New(&said)
		m, err := party.Open(t.Context(), dir, "", protocol.Client, nil, &log)
		if err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(said.String(), "made again") && strings.Contains(said.String(), `"warn"`); warned != lost {
			t.Errorf("lost %t: the log says %s", lost, said.String())
		}
		if err = m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
