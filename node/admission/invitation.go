package admission

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// Contact is where the aggregator is, and which keys the aggregator and the server have. The operator gives it to the invited person; it
// can be trusted as far as the channel that it came over.
type Contact struct {
	// Addresses are the aggregator's, in the transport's own form: 1 to 16.
	Addresses []string `json:"addresses"`
	// Peer is the aggregator's name in the transport's own form.
	Peer string `json:"peer"`
	// Aggregator and Server pin who holds these places, if that was known when the invitation was made; see Membership.Check.
	Aggregator PublicKey `json:"aggregator,omitzero"`
	Server     PublicKey `json:"server,omitzero"`
}

const (
	maxAddresses = 16
	maxAddress   = 512 // bytes of an address or of a peer's name
)

func (c *Contact) check() error {
	var errs problems.List
	errs.If(len(c.Addresses) < 1 || len(c.Addresses) > maxAddresses,
		"%w: %d addresses of the aggregator; there must be 1 to %d", ErrMalformed, len(c.Addresses), maxAddresses)
	for _, s := range append([]string{c.Peer}, c.Addresses...) {
		errs = append(errs, checkText("address or peer", s, maxAddress))
		errs.If(strings.ContainsRune(s, ' '), "%w: a space in the address or peer %q", ErrMalformed, s)
	}
	for _, k := range []PublicKey{c.Aggregator, c.Server} {
		if !k.IsZero() {
			errs = append(errs, k.check())
		}
	}
	return errors.Join(errs...)
}

// Invitation goes from the operator to one person, over a private and authentic channel. It says who the operator is. The first person to
// redeem it takes the place. It is secret until it is redeemed, and not afterwards.
type Invitation struct {
	Federation Federation
	Ticket     Ticket
	Key        PrivateKey // the private half of Ticket.Key
	Contact    Contact
}

// Offer is the contents of a ticket to be issued.
type Offer struct {
	Place    Place
	Serial   uint32 // 1, or Revocations.NextSerial for a replacement
	NotAfter time.Time
	Contact  Contact
}

// Invite makes a ticket and the invitation around it. The ticket's key is drawn from src.
func Invite(operator PrivateKey, f *Federation, o Offer, src entropy.Source) (*Invitation, error) {
	var seed [entropy.SeedSize]byte
	if _, err := io.ReadFull(src.Stream("admission/ticket", 0), seed[:]); err != nil {
		return nil, fmt.Errorf("admission: drawing a ticket's key: %w", err)
	}
	i := &Invitation{Federation: *f, Key: newPrivateKey(seed[:]), Contact: o.Contact}
	i.Ticket = Ticket{Federation: f.Hash(), Place: o.Place, Serial: o.Serial, Key: i.Key.Public(), NotAfter: seconds(o.NotAfter)}
	if err := cmp.Or(f.signedBy(operator), i.Ticket.check(f)); err != nil {
		return nil, err
	}
	i.Ticket.Signature = operator.Sign(i.Ticket.Hash())
	return sound(i, i.check())
}

// check verifies all that an invitation can say about itself.
func (i *Invitation) check() error {
	err := cmp.Or(i.Federation.Verify(i.Federation.Operator), errors.Join(i.Ticket.Verify(&i.Federation), i.Contact.check()))
	if err == nil && i.Key.Public() != i.Ticket.Key {
		err = fmt.Errorf("%w: the invitation's private key does not belong to its ticket", ErrMalformed)
	}
	return err
}

// Accept redeems the invitation for an identity. The same invitation and identity always give the same membership, so it may be repeated
// after a crash. Once the aggregator has accepted the enrolment, the party and the operator must delete the invitation. A thief of its key
// could claim to be the invited party, to parties that never saw this enrolment.
func (i *Invitation) Accept(identity PrivateKey) (*Membership, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	if identity.IsZero() {
		return nil, fmt.Errorf("%w: no identity key to accept the invitation with", ErrMalformed)
	}
	e := Enrolment{Ticket: i.Ticket, Identity: identity.Public()}
	e.Redemption, e.Possession = i.Key.Sign(e.signed("redemption")), identity.Sign(e.signed("possession"))
	m := &Membership{Federation: i.Federation, Enrolment: e, Contact: i.Contact}
	return sound(m, m.check())
}

// Membership holds the part of an invitation that a party keeps. Nothing in it is secret.
type Membership struct {
	Federation Federation `json:"federation"`
	Enrolment  Enrolment  `json:"enrolment"`
	Contact    Contact    `json:"contact"`
}

func (m *Membership) check() error {
	return cmp.Or(m.Federation.Verify(m.Federation.Operator), errors.Join(m.Enrolment.Verify(&m.Federation), m.Contact.check()))
}

// Check says whether the party can work with a verified list. The party must have its place. Server and aggregator must have the keys that
// the invitation names, or other keys if the operator revoked these. Vacant places are accepted.
func (m *Membership) Check(l *List) error {
	if err := m.Federation.own(l.Federation.Hash(), "list"); err != nil {
		return err
	}
	own := &m.Enrolment
	if err := l.barred().check(own); err != nil {
		return fmt.Errorf("this party itself: %w", err)
	}
	if k, ok := l.Holder(own.Ticket.Place); !ok || k != own.Identity {
		return fmt.Errorf("%w: %s, as the %s", ErrNotEnrolled, own.Identity, own.Ticket.Place)
	}
	return errors.Join(m.pinned(l, ServerPlace, m.Contact.Server), m.pinned(l, AggregatorPlace, m.Contact.Aggregator))
}

func (m *Membership) pinned(l *List, p Place, pin PublicKey) error {
	k, ok := l.Holder(p)
	if !ok || pin.IsZero() || k == pin || l.barred().identities[pin] {
		return nil
	}
	return fmt.Errorf("%w: the %s is %s, and should be %s", ErrPinned, p, k, pin)
}

// Ticket is the operator's signed permission to take a place. Only the invitation contains the
// private half of Key. Its holder may name the identity that takes the place.
type Ticket struct {
	Federation Hash  `json:"federation"`
	Place      Place `json:"place"`
	// Serial counts the tickets of the place, from 1. Revoking one revokes those before it, so a replacement has a higher one.
	Serial    uint32    `json:"serial"`
	Key       PublicKey `json:"key"`       // of one use
	NotAfter  time.Time `json:"not_after"` // UTC, whole seconds
	Signature Signature `json:"signature"` // the operator's
}

// Hash names the ticket: the SHA-256 of the transcript of the domain "fedsim/admission/ticket/v1" with the federation's hash, role, client
// (0 for other roles), serial, key, and not-after in seconds since 1970. The operator's signature is over it.
func (t *Ticket) Hash() Hash {
	return Hash(t.Place.write(protocol.NewTranscript("fedsim/admission/ticket/v1").Bytes(t.Federation[:])).
		Uint(uint64(t.Serial)).Bytes(t.Key[:]).Uint(uint64(t.NotAfter.Unix())).Sum())
}

// same says whether two tickets have the same hash, without making it.
func (t *Ticket) same(o *Ticket) bool {
	return t.Federation == o.Federation && t.Place == o.Place && t.Serial == o.Serial && t.Key == o.Key && t.NotAfter.Unix() == o.NotAfter.Unix()
}

// Verify says whether the federation's operator signed the ticket. It does not say
// whether the ticket has expired, been used or been revoked.
func (t *Ticket) Verify(f *Federation) error {
	if err := cmp.Or(f.own(t.Federation, "ticket"), t.check(f)); err != nil {
		return err
	}
	if !f.Signer().Verify(t.Hash(), t.Signature) {
		return fmt.Errorf("%w: the ticket of the %s is not signed by the operator %s", ErrSignature, t.Place, f.Signer())
	}
	return nil
}

func (t *Ticket) check(f *Federation) error {
	errs := problems.List{t.Place.check(f.Places()), checkTime("end of a ticket", t.NotAfter), t.Key.check()}
	errs.If(t.Serial == 0, "%w: a ticket of serial 0; they count from 1", ErrMalformed)
	return errors.Join(errs...)
}

// Enrolment is a redeemed ticket: the ticket's key names an identity for the place, and the identity signs as well. Every holder of the
// operator's public key can verify it, whatever way it came.
type Enrolment struct {
	Ticket     Ticket    `json:"ticket"`
	Identity   PublicKey `json:"identity"`
	Redemption Signature `json:"redemption"` // by the ticket's key
	Possession Signature `json:"possession"` // by the identity
}

// Verify says whether the operator gave the place to the holder of the ticket's key, whether that key named this identity, and whether the
// identity's private key has signed, too. A Registry or a List says whether the ticket was redeemed before or revoked.
func (e *Enrolment) Verify(f *Federation) error {
	if err := cmp.Or(e.Ticket.Verify(f), e.check(f)); err != nil {
		return err
	}
	if !e.Ticket.Key.Verify(e.signed("redemption"), e.Redemption) {
		return fmt.Errorf("%w: %s did not redeem the ticket of the %s with the ticket's key", ErrSignature, e.Identity, e.Ticket.Place)
	}
	if !e.Identity.Verify(e.signed("possession"), e.Possession) {
		return fmt.Errorf("%w: %s did not agree to be the %s", ErrSignature, e.Identity, e.Ticket.Place)
	}
	return nil
}

// check refuses keys of two uses: the operator's is not there in operation, and a ticket's has been in other hands.
func (e *Enrolment) check(f *Federation) error {
	if f.operates(e.Identity) || e.Identity == e.Ticket.Key {
		return fmt.Errorf("%w: %s", ErrIdentityUsed, e.Identity)
	}
	return e.Identity.check()
}

// signed returns the hash that one of the two signatures is over: the SHA-256 of the transcript of the domain
// "fedsim/admission/redemption/v1" or "fedsim/admission/possession/v1" with the ticket's hash and the identity.
func (e *Enrolment) signed(what string) Hash {
	ticket := e.Ticket.Hash()
	return Hash(protocol.NewTranscript("fedsim/admission/" + what + "/v1").Bytes(ticket[:]).Bytes(e.Identity[:]).Sum())
}

// same says whether two valid enrolments mean the same: their signatures may be spelt in several ways.
func (e *Enrolment) same(o *Enrolment) bool {
	return e == o || e.Ticket.same(&o.Ticket) && e.Identity == o.Identity
}

// Lasting marks an error that a start again does not change, so that a supervisor does not start the process again.
func Lasting(err error) error { return &lasting{err} }

type lasting struct{ error }

func (e *lasting) Unwrap() error { return e.error }

// Usage reports that the call was wrong.
func (e *lasting) Usage() bool { return true }

// Reasons for a refusal. Errors wrap one of these and say whom or what it is about.
var (
	// ErrMalformed: a text or a value is not well-formed.
	ErrMalformed = errors.New("admission: malformed")
	// ErrSignature: a signature is missing, wrong, or by another key than required.
	ErrSignature = errors.New("admission: a signature does not verify")
	// ErrFederation: something belongs to another federation.
	ErrFederation = errors.New("admission: this is of another federation")
	// ErrExpired: an invitation came too late.
	ErrExpired = errors.New("admission: the invitation has expired; ask the operator for another")
	// ErrRedeemed: another party has redeemed the same invitation before.
	ErrRedeemed = errors.New("admission: the invitation has been used by another party; if that was not you, another person has it: ask the operator to revoke it and to invite you again")
	// ErrHeld: the place is taken by a party with another invitation.
	ErrHeld = errors.New("admission: the place is held; the operator must revoke its holder before another party can take it")
	// ErrIdentityUsed: an identity may be used for one place only.
	ErrIdentityUsed = errors.New("admission: this key has another use in the federation already; make a new one for this place")
	// ErrRevoked: the operator has revoked an invitation or an identity.
	ErrRevoked = Lasting(errors.New("admission: the operator has revoked this"))
	// ErrOutdated: the revocations are older than those already known.
	ErrOutdated = errors.New("admission: newer revocations than these are known")
	// ErrForgotten: something that was there before is missing although nothing revoked it.
	ErrForgotten = errors.New("admission: what stood before must stand until the operator revokes it")
	// ErrPinned: a party's key differs from the key that the invitation names.
	ErrPinned = errors.New("admission: this is not the key that the invitation names; ask the operator which one is right")
	// ErrNotEnrolled: a party is not on a list.
	ErrNotEnrolled = errors.New("admission: not on the enrolment list")
	// ErrExposed: other users of the machine can read the file of a secret.
	ErrExposed = errors.New("admission: others can read this secret")
)
