package node_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

const lfl = "algorithm=fmf-lfl tolerance=0.25 "

// host is a libp2p host of its own, which can do what a party's process would not.
func (f *federation) host(k admission.PrivateKey) host.Host {
	f.t.Helper()
	key, err := crypto.UnmarshalEd25519PrivateKey(k.Ed25519())
	if err != nil {
		f.t.Fatal(err)
	}
	h, err := libp2p.New(append(f.network.option(), libp2p.Identity(key), libp2p.NoListenAddrs, libp2p.DisableRelay(), libp2p.DisableIdentifyAddressDiscovery())...)
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

// hears says whether the aggregator answers a peer anything on a protocol, after the
// peer has said something (nil: nothing).
func (f *federation) hears(k admission.PrivateKey, on protocol.ID, say any) bool {
	f.t.Helper()
	h := f.host(k)
	defer h.Close() //nolint:errcheck // nothing is left to be lost
	info := f.hub
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	if err := h.Connect(ctx, info); err != nil {
		return false
	}
	s, err := h.NewStream(ctx, info.ID, on)
	if err != nil {
		return false
	}
	defer s.Reset() //nolint:errcheck // nothing is left to be lost
	_ = s.SetDeadline(time.Now().Add(20 * time.Second))
	if say != nil {
		text, err := json.Marshal(say)
		if err != nil {
			f.t.Fatal(err)
		}
		_, _ = s.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
	n, _ := s.Read(make([]byte, 1))
	return n > 0
}

// The first messages of peers on either protocol, as node.go and enrol.go have them.
func registration() any {
	return map[string]any{"register": map[string]any{"version": peer.ProtocolID, "life": [16]byte{}}}
}

func (f *federation) enrolment(i *admission.Invitation, identity admission.PrivateKey) any {
	f.t.Helper()
	m, err := i.Accept(identity)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := m.Enrolment.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	return map[string]any{"enrol": json.RawMessage(text)}
}

func (f *federation) admit(invitations ...*admission.Invitation) {
	f.t.Helper()
	var tickets []admission.Ticket
	for _, i := range invitations {
		tickets = append(tickets, i.Ticket)
	}
	if err := f.aggregator.Admit(tickets); err != nil {
		f.t.Fatal(err)
	}
}

// The gate: strangers do not even get libp2p's own answers, and an admitted peer may speak one
// protocol.
func TestWhoMaySpeakWhat(t *testing.T) {
	f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
	f.join(admission.ClientPlace(0))
	invitation := f.invite(admission.ClientPlace(1), time.Now().Add(time.Hour))
	other := f.invite(admission.ClientPlace(2), time.Now().Add(time.Hour))
	identity := f.identity(admission.ClientPlace(1))
	// A party is enrolled with a key that is another ticket's, too.
	both := f.invite(admission.ClientPlace(3), time.Now().Add(time.Hour))
	f.identities[admission.ClientPlace(2)] = both.Key
	f.join(admission.ClientPlace(2))
	f.admit(invitation, both)
	for _, c := range []struct {
		who  string
		key  admission.PrivateKey
		on   protocol.ID
		say  any
		want bool
	}{
		{"a stranger, identify", f.key("stranger"), identify.ID, nil, false},
		{"a stranger, sessions", f.key("stranger"), peer.ProtocolID, registration(), false},
		{"a stranger with somebody's enrolment", f.key("stranger"), peer.EnrolID, f.enrolment(invitation, identity), false},
		{"a ticket that the aggregator was not told of", other.Key, peer.EnrolID, f.enrolment(other, identity), false},
		{"an enrolled party, identify", f.identity(admission.ClientPlace(0)), identify.ID, nil, true},
		{"an enrolled party, sessions", f.identity(admission.ClientPlace(0)), peer.ProtocolID, registration(), true},
		{"an enrolled party, enrolling", f.identity(admission.ClientPlace(0)), peer.EnrolID, f.enrolment(invitation, identity), false},
		{"an enrolled party with a ticket, enrolling", both.Key, peer.EnrolID, f.enrolment(both, f.key("another")), false},
		{"a ticket, sessions", invitation.Key, peer.ProtocolID, registration(), false},
		{"a ticket, more than an enrolment", invitation.Key, peer.EnrolID, map[string]any{"enrol": strings.Repeat("x", 1100)}, false},
		{"a ticket, enrolling", invitation.Key, peer.EnrolID, f.enrolment(invitation, identity), true},
	} {
		if got := f.hears(c.key, c.on, c.say); got != c.want {
			t.Errorf("%s: answered %v, want %v", c.who, got, c.want)
		}
	}
}

// The first party to redeem an invitation has the place, durably, and may redeem it again.
func TestEnrolOnce(t *testing.T) {
	f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
	place := admission.ClientPlace(3)
	i := f.invite(place, time.Now().Add(time.Hour))
	f.admit(i)
	first := f.identity(place)
	for range 2 {
		m, err := node.Enrol(t.Context(), i, first, zerolog.Nop(), f.network.option()...)
		if err != nil {
			t.Fatal(err)
		}
		if m.Enrolment.Identity != first.Public() {
			t.Errorf("the membership is of %s", m.Enrolment.Identity)
		}
	}
	_, err := node.Enrol(t.Context(), i, f.key("thief"), zerolog.Nop(), f.network.option()...)
	if !errors.Is(err, session.ErrRefused) || !strings.Contains(err.Error(), "used by another party") {
		t.Errorf("a second redemption: %v", err)
	}
	again, err := admission.OpenRegistry(f.federation, f.registryLog)
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := again.Lookup(first.Public()); !ok || p != place {
		t.Errorf("after a restart the identity has the place %v, %v", p, ok)
	}
}

func TestEnrolRefused(t *testing.T) {
	f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
	expired := f.invite(admission.ClientPlace(1), time.Now().Add(-time.Hour))
	i, other := f.invite(admission.ClientPlace(2), time.Now().Add(time.Hour)), f.invite(admission.ClientPlace(3), time.Now().Add(time.Hour))
	f.admit(expired, i, other)
	if _, err := node.Enrol(t.Context(), expired, f.key("late"), zerolog.Nop(), f.network.option()...); !errors.Is(err, session.ErrRefused) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired invitation: %v", err)
	}
	// The holder of one ticket brings the enrolment of another.
	f.hears(i.Key, peer.EnrolID, f.enrolment(other, f.key("swapped")))
	if _, ok := f.registry.List().Holder(admission.ClientPlace(3)); ok {
		t.Error("an enrolment was taken from who did not hold its ticket")
	}
	revocations, err := admission.Revoke(f.operator, f.federation, nil, admission.Revocation{Place: admission.ClientPlace(2), Serial: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err = f.aggregator.Revoke(revocations); err != nil {
		t.Fatal(err)
	}
	if f.hears(i.Key, peer.EnrolID, f.enrolment(i, f.key("revoked"))) {
		t.Error("the holder of a revoked ticket was let in")
	}
	f.admit(i)
	if f.hears(other.Key, peer.EnrolID, f.enrolment(other, f.key("withdrawn"))) {
		t.Error("the holder of a withdrawn ticket was let in")
	}
}

// A revoked party loses its connection, not only the stream that it speaks on; also if the
// revocation cannot be written.
func TestRevokedConnectionCloses(t *testing.T) {
	for name, want := range map[string]error{"written": nil, "not written": store.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
			m := f.join(admission.ClientPlace(3))
			h := f.host(f.identity(admission.ClientPlace(3)))
			defer h.Close() //nolint:errcheck // nothing is left to be lost
			gone := make(chan struct{})
			h.Network().Notify(&network.NotifyBundle{DisconnectedF: func(network.Network, network.Conn) { close(gone) }})
			if err := h.Connect(t.Context(), f.hub); err != nil {
				t.Fatal(err)
			}
			revocations, err := admission.Revoke(f.operator, f.federation, nil, node.RevocationOf(&m.Enrolment))
			if err != nil {
				t.Fatal(err)
			}
			if want != nil {
				_ = f.registryLog.Close()
			}
			if err = f.aggregator.Revoke(revocations); !errors.Is(err, want) {
				t.Errorf("revoked: %v, want %v", err, want)
			}
			select {
			case <-gone:
			case <-time.After(20 * time.Second):
				t.Error("the connection of a revoked peer stays open")
			}
		})
	}
}

func TestTickets(t *testing.T) {
	f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
	a, b := f.invite(admission.ServerPlace, time.Now()).Ticket, f.invite(admission.ClientPlace(2), time.Now()).Ticket
	text, err := hub.Tickets{Tickets: []admission.Ticket{a, b}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := hub.ParseTickets(text, f.federation)
	if err != nil || len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("read back %v, %v", got, err)
	}
	if text, err = (hub.Tickets{}).Encode(); err != nil {
		t.Fatal(err)
	}
	if got, err = hub.ParseTickets(text, f.federation); err != nil || len(got) != 0 {
		t.Errorf("no tickets read back as %v, %v", got, err)
	}
	encode := func(list ...admission.Ticket) string {
		b, failed := hub.Tickets{Tickets: list}.Encode()
		if failed != nil {
			t.Fatal(failed)
		}
		return string(b)
	}
	forged, foreign := b, b
	forged.Serial++
	elsewhere, err := admission.NewFederation(f.operator, "Other", 8, time.Now(), simulated.New(seed, "other"))
	if err != nil {
		t.Fatal(err)
	}
	foreign.Federation = elsewhere.Hash()
	for text, want := range map[string]error{
		encode(a, forged):                   admission.ErrSignature,
		encode(foreign):                     admission.ErrFederation,
		encode(a, a):                        admission.ErrMalformed,
		encode(a) + "{}":                    admission.ErrMalformed,
		`{}`:                                admission.ErrMalformed,
		`{"fedsim-tickets-v1":[],"more":1}`: admission.ErrMalformed,
		`[`:                                 admission.ErrMalformed,
	} {
		if got, err := hub.ParseTickets([]byte(text), f.federation); !errors.Is(err, want) || got != nil {
			t.Errorf("%.60s: %v, %v; want %v", text, got, err, want)
		}
	}
}

// The holder of the aggregator's own place is not served as a client with the number 0: the
// aggregator dials no peer.
func TestAggregatorsPlaceIsNoClient(t *testing.T) {
	f := newFederation(t, lfl+"data="+ratings(t, 4, 12))
	revocations, err := admission.Revoke(f.operator, f.federation, nil, admission.Revocation{Place: admission.AggregatorPlace, Serial: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err = f.aggregator.Revoke(revocations); err != nil {
		t.Fatal(err)
	}
	i, err := admission.Invite(f.operator, f.federation, admission.Offer{Place: admission.AggregatorPlace, Serial: 2,
		NotAfter: time.Now().Add(time.Hour), Contact: f.contact}, simulated.New(seed, "another"))
	if err != nil {
		t.Fatal(err)
	}
	other := f.key("another aggregator")
	m, err := i.Accept(other)
	if err != nil {
		t.Fatal(err)
	}
	if err = f.registry.Redeem(time.Now(), &m.Enrolment); err != nil {
		t.Fatal(err)
	}
	if f.hears(other, peer.ProtocolID, registration()) {
		t.Error("it was registered")
	}
}
