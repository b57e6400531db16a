package admission_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// sign signs what a party of that key would sign by itself: the attacks below have
// keys of their own, and everything else of the protocol.
func sign(k admission.PrivateKey, hash [32]byte) admission.Signature {
	return admission.Signature(ed25519.Sign(k.Ed25519(), hash[:]))
}

// redeem makes an enrolment with the keys that an attacker has. It writes the transcripts that the
// documentation specifies.
func redeem(ticket admission.Ticket, ticketKey, identity admission.PrivateKey) *admission.Enrolment {
	e := &admission.Enrolment{Ticket: ticket, Identity: identity.Public()}
	hash := ticket.Hash()
	signed := func(what string) [32]byte {
		return protocol.NewTranscript("fedsim/admission/" + what + "/v1").Bytes(hash[:]).Bytes(e.Identity[:]).Sum()
	}
	e.Redemption, e.Possession = sign(ticketKey, signed("redemption")), sign(identity, signed("possession"))
	return e
}

// An attacker who lacks the operator's key, or has one invitation only, cannot make a valid
// enrolment.
func TestEnrolmentsThatNobodyGaveOut(t *testing.T) {
	w := newWorld(t, 3)
	mallory, ticketKey := key(t, "mallory"), key(t, "mallory's ticket")
	invited := w.invite(client(1), 1)
	good := w.enrol(client(1), 1, "alice")
	if err := good.Verify(w.federation); err != nil {
		t.Fatal(err)
	}
	// The invited person changes the ticket and signs it with its key again.
	changed := func(change func(*admission.Ticket)) *admission.Enrolment {
		ticket := invited.Ticket
		change(&ticket)
		return redeem(ticket, invited.Key, mallory)
	}
	invented := invited.Ticket
	invented.Key = ticketKey.Public()
	invented.Signature = sign(mallory, invented.Hash())
	others := newWorld(t, 3)
	others.federation, _ = admission.NewFederation(w.operator, "Other", 3, founded, simulated.New(1, "federation"))
	swapped := *good
	swapped.Redemption, swapped.Possession = good.Possession, good.Redemption
	stolen := redeem(invited.Ticket, invited.Key, mallory) // mallory's key signs, alice's is named
	stolen.Identity = key(t, "alice").Public()
	relayed := *good // alice's, with mallory's key in place of hers
	relayed.Identity, relayed.Possession = mallory.Public(), redeem(invited.Ticket, ticketKey, mallory).Possession

	for _, c := range []struct {
		name string
		e    *admission.Enrolment
		want error
		text string
	}{
		{"a ticket of one's own", redeem(invented, ticketKey, mallory), admission.ErrSignature, "not signed by the operator"},
		{"another place", changed(func(t *admission.Ticket) { t.Place = client(2) }), admission.ErrSignature, "not signed by the operator"},
		{"another role", changed(func(t *admission.Ticket) { t.Place = admission.ServerPlace }), admission.ErrSignature, "not signed by the operator"},
		{"a place too many", changed(func(t *admission.Ticket) { t.Place = client(3) }), admission.ErrMalformed, "clients 0 to 2"},
		{"a second server", changed(func(t *admission.Ticket) { t.Place = admission.Place{Role: protocol.Server, Client: 1} }), admission.ErrMalformed, "no place"},
		{"no role", changed(func(t *admission.Ticket) { t.Place.Role = 9 }), admission.ErrMalformed, "no place"},
		{"a later end", changed(func(t *admission.Ticket) { t.NotAfter = t.NotAfter.Add(time.Hour) }), admission.ErrSignature, "not signed by the operator"},
		{"a higher serial", changed(func(t *admission.Ticket) { t.Serial = 2 }), admission.ErrSignature, "not signed by the operator"},
		{"no serial", changed(func(t *admission.Ticket) { t.Serial = 0 }), admission.ErrMalformed, "count from 1"},
		{"another federation of the operator", others.enrol(client(1), 1, "alice"), admission.ErrFederation, "ticket is not of the federation"},
		{"a ticket without its key", redeem(invited.Ticket, ticketKey, mallory), admission.ErrSignature, "did not redeem"},
		{"somebody else's identity", stolen, admission.ErrSignature, "did not redeem"},
		{"somebody else's identity, with the ticket's key", func() *admission.Enrolment {
			e := redeem(invited.Ticket, invited.Key, mallory)
			e.Identity = key(t, "alice").Public()
			hash := e.Ticket.Hash()
			e.Redemption = sign(invited.Key, protocol.NewTranscript("fedsim/admission/redemption/v1").Bytes(hash[:]).Bytes(e.Identity[:]).Sum())
			return e
		}(), admission.ErrSignature, "did not agree"},
		{"an enrolment on its way, with another identity", &relayed, admission.ErrSignature, "did not redeem"},
		{"the two signatures swapped", &swapped, admission.ErrSignature, "did not redeem"},
		{"the ticket's key as identity", redeem(invited.Ticket, invited.Key, invited.Key), admission.ErrIdentityUsed, ""},
		{"the operator's key as identity", redeem(invited.Ticket, invited.Key, w.operator), admission.ErrIdentityUsed, ""},
	} {
		if err := c.e.Verify(w.federation); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v (%s)", c.name, err, c.want, c.text)
		}
	}
}

// The operator's signature fixes the federation. A party that knows the operator's key refuses a
// descriptor that another key signed.
func TestFederationIsTheOperators(t *testing.T) {
	w := newWorld(t, 3)
	if err := w.federation.Verify(w.operator.Public()); err != nil {
		t.Fatal(err)
	}
	mallory := key(t, "mallory")
	hers, err := admission.NewFederation(mallory, "Test", 3, founded, simulated.New(1, "federation"))
	if err != nil {
		t.Fatal(err)
	}
	if err = hers.Verify(w.operator.Public()); !errors.Is(err, admission.ErrFederation) {
		t.Errorf("a federation of mallory's: %v", err)
	}
	for name, change := range map[string]func(*admission.Federation){
		"clients": func(f *admission.Federation) { f.Clients++ },
		"name":    func(f *admission.Federation) { f.Name += "s" },
		"ID":      func(f *admission.Federation) { f.ID[15]++ },
		"created": func(f *admission.Federation) { f.Created = f.Created.Add(time.Second) },
		"signer":  func(f *admission.Federation) { f.Signature = sign(mallory, f.Hash()) },
	} {
		f := *w.federation
		change(&f)
		if err = f.Verify(w.operator.Public()); !errors.Is(err, admission.ErrSignature) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	// The time of founding is stored in UTC and whole seconds, whatever time zone the clock shows.
	local := time.FixedZone("somewhere", 3600)
	f, err := admission.NewFederation(w.operator, "Test", 3, founded.In(local).Add(999*time.Millisecond), simulated.New(1, "federation"))
	if err != nil || f.Hash() != w.federation.Hash() {
		t.Errorf("the same moment on another clock gives %+v (%v), want %+v", f, err, w.federation)
	}
	if _, err := admission.NewFederation(w.operator, "Test", 3, founded, entropy.Source{}); !errors.Is(err, entropy.ErrNone) {
		t.Errorf("founded with an ID of nothing: %v", err)
	}
	if _, err := admission.NewFederation(w.operator, "T\xffst", 3, founded, simulated.New(1, "federation")); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("founded with a name that is no text: %v", err)
	}
	for _, n := range []int{-1, 0, admission.MaxClients + 1} {
		if _, err := admission.NewFederation(w.operator, "Test", n, founded, simulated.New(1, "federation")); !errors.Is(err, admission.ErrMalformed) {
			t.Errorf("founded with %d clients: %v", n, err)
		}
	}
}

func TestInvite(t *testing.T) {
	w := newWorld(t, 3)
	good := admission.Offer{Place: client(2), Serial: 1, NotAfter: end, Contact: contact}
	offer := func(change func(*admission.Offer)) admission.Offer {
		o := good
		change(&o)
		return o
	}
	for _, c := range []struct {
		name  string
		offer admission.Offer
		want  string
	}{
		{"place", offer(func(o *admission.Offer) { o.Place = client(3) }), "clients 0 to 2"},
		{"serial", offer(func(o *admission.Offer) { o.Serial = 0 }), "count from 1"},
		{"end", offer(func(o *admission.Offer) { o.NotAfter = time.Time{} }), "years 1970 to 9999"},
		{"no address", offer(func(o *admission.Offer) { o.Contact.Addresses = nil }), "there must be 1 to 16"},
		{"many addresses", offer(func(o *admission.Offer) { o.Contact.Addresses = make([]string, 17) }), "there must be 1 to 16"},
		{"an empty address", offer(func(o *admission.Offer) { o.Contact.Addresses = []string{""} }), "1 to 512 bytes"},
		{"an address with a space", offer(func(o *admission.Offer) { o.Contact.Addresses = []string{"/ip4/192.0.2.1 /tcp/1"} }), "a space"},
		{"no peer", offer(func(o *admission.Offer) { o.Contact.Peer = "" }), "1 to 512 bytes"},
		{"a pin that is no key", offer(func(o *admission.Offer) { o.Contact.Server[31] = 0x80 }), "small order"},
	} {
		if _, err := admission.Invite(w.operator, w.federation, c.offer, simulated.New(1, "ticket")); !errors.Is(err, admission.ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := admission.Invite(key(t, "mallory"), w.federation, good, simulated.New(1, "ticket")); !errors.Is(err, admission.ErrFederation) {
		t.Errorf("invited by mallory: %v", err)
	}
	if _, err := admission.Invite(w.operator, w.federation, good, entropy.Source{}); !errors.Is(err, entropy.ErrNone) {
		t.Errorf("invited with a key of nothing: %v", err)
	}
}

// The invited person can read an invitation as it came, and only if all of it
// belongs together.
func TestInvitationsThatDoNotFit(t *testing.T) {
	w := newWorld(t, 3)
	other := w.invite(client(2), 1)
	hers := newWorld(t, 3)
	hers.operator = key(t, "mallory")
	hers.federation, _ = admission.NewFederation(hers.operator, "Test", 3, founded, simulated.New(1, "federation"))
	for _, c := range []struct {
		name   string
		change func(*admission.Invitation)
		want   error
	}{
		{"another ticket's key", func(i *admission.Invitation) { i.Key = other.Key }, admission.ErrMalformed},
		{"another ticket", func(i *admission.Invitation) { i.Ticket = other.Ticket }, admission.ErrMalformed},
		{"another federation", func(i *admission.Invitation) { i.Federation = *hers.federation }, admission.ErrFederation},
		{"a federation that grew", func(i *admission.Invitation) { i.Federation.Clients = 4 }, admission.ErrSignature},
		{"an end that moved", func(i *admission.Invitation) { i.Ticket.NotAfter = end.Add(time.Second) }, admission.ErrSignature},
	} {
		i := w.invite(client(1), 1)
		c.change(i)
		text, err := i.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admission.ParseInvitation(text); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := new(admission.Invitation).Accept(key(t, "alice")); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("accepted nothing: %v", err)
	}
	i := w.invite(client(1), 1)
	if _, err := i.Accept(admission.PrivateKey{}); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("accepted with no key: %v", err)
	}
	for _, k := range []admission.PrivateKey{w.operator, i.Key} {
		if _, err := i.Accept(k); !errors.Is(err, admission.ErrIdentityUsed) {
			t.Errorf("accepted with the key %v: %v", k, err)
		}
	}
}

// A crash after the invitation was accepted does no harm: it is accepted the
// same way again. And what is kept of it has no secret.
func TestAcceptRepeats(t *testing.T) {
	w := newWorld(t, 3)
	a, b := w.accept(client(1), 1, "alice"), w.accept(client(1), 1, "alice")
	if !reflect.DeepEqual(a, b) {
		t.Errorf("accepted twice the invitation gives %+v and %+v", a, b)
	}
	text, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("private")) {
		t.Errorf("a membership with a private key: %s", text)
	}
	again, err := admission.ParseMembership(text)
	if err != nil || !reflect.DeepEqual(again, a) {
		t.Errorf("the membership is read as %+v (%v), want %+v", again, err, a)
	}
}
