package admission

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fedsim/fedsim/entropy"
)

// Contact is where the aggregator is, and which keys the aggregator and the server have.
// The operator gives it to the invited person; it can be trusted as far as the channel
// that it came over.
type Contact struct {
	// Addresses are the aggregator's, in the transport's own form: 1 to 16.
	Addresses []string `json:"addresses"`
	// Peer is the aggregator's name in the transport's own form.
	Peer string `json:"peer"`
	// Aggregator and Server pin who holds these places, if that was known when
	// the invitation was made; see Membership.Check.
	Aggregator PublicKey `json:"aggregator,omitzero"`
	Server     PublicKey `json:"server,omitzero"`
}

const (
	maxAddresses = 16
	maxAddress   = 512 // bytes of an address or of a peer's name
)

func (c *Contact) check() error {
	var errs []error
	if len(c.Addresses) < 1 || len(c.Addresses) > maxAddresses {
		errs = append(errs, fmt.Errorf("%w: %d addresses of the aggregator; there must be 1 to %d", ErrMalformed, len(c.Addresses), maxAddresses))
	}
	for _, s := range append([]string{c.Peer}, c.Addresses...) {
		errs = append(errs, checkText("address or peer", s, maxAddress))
		if strings.ContainsRune(s, ' ') {
			errs = append(errs, fmt.Errorf("%w: a space in the address or peer %q", ErrMalformed, s))
		}
	}
	for _, k := range []PublicKey{c.Aggregator, c.Server} {
		if !k.IsZero() {
			errs = append(errs, k.check())
		}
	}
	return errors.Join(errs...)
}

// Invitation goes from the operator to one person, over a private and authentic channel. It says
// who the operator is. The first person to redeem it takes the place. It is secret until it is
// redeemed, and not afterwards.
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

// Invite makes a ticket and the invitation around it. The ticket's key is drawn
// from src.
func Invite(operator PrivateKey, f *Federation, o Offer, src entropy.Source) (*Invitation, error) {
	var seed [entropy.SeedSize]byte
	if _, err := io.ReadFull(src.Stream("admission/ticket", 0), seed[:]); err != nil {
		return nil, fmt.Errorf("admission: drawing a ticket's key: %w", err)
	}
	i := &Invitation{Federation: *f, Key: newPrivateKey(seed[:]), Contact: o.Contact}
	i.Ticket = Ticket{Federation: f.Hash(), Place: o.Place, Serial: o.Serial, Key: i.Key.Public(), NotAfter: seconds(o.NotAfter)}
	if operator.Public() != f.Operator {
		return nil, fmt.Errorf("%w: the operator of %q is %s, not %s", ErrFederation, f.Name, f.Operator, operator.Public())
	}
	if err := i.Ticket.check(f); err != nil {
		return nil, err
	}
	i.Ticket.Signature = operator.Sign(i.Ticket.Hash())
	return sound(i, i.check())
}

// check verifies all that an invitation can say about itself.
func (i *Invitation) check() error {
	if err := i.Federation.Verify(i.Federation.Operator); err != nil {
		return err
	}
	if err := errors.Join(i.Ticket.Verify(&i.Federation), i.Contact.check()); err != nil {
		return err
	}
	if i.Key.Public() != i.Ticket.Key {
		return fmt.Errorf("%w: the invitation's private key does not belong to its ticket", ErrMalformed)
	}
	return nil
}

// Accept redeems the invitation for an identity. The same invitation and identity always give the
// same membership, so it may be repeated after a crash. Once the aggregator has accepted the
// enrolment, the party and the operator must delete the invitation. A thief of its key could claim
// to be the invited party, to parties that never saw this enrolment.
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
	if err := m.Federation.Verify(m.Federation.Operator); err != nil {
		return err
	}
	return errors.Join(m.Enrolment.Verify(&m.Federation), m.Contact.check())
}

// Check says whether the party can work with a verified list. The party must have its place. Server
// and aggregator must have the keys that the invitation names, or other keys if the operator
// revoked these. Vacant places are accepted.
func (m *Membership) Check(l *List) error {
	if err := m.Federation.own(l.Federation.Hash(), "list"); err != nil {
		return err
	}
	own := &m.Enrolment
	if err := l.Revocations.Check(own); err != nil {
		return fmt.Errorf("this party itself: %w", err)
	}
	if l.Federation.Gone(own.Ticket.Place) {
		return fmt.Errorf("this party itself: %w: the place of the %s was given up", ErrRevoked, own.Ticket.Place)
	}
	if k, ok := l.Holder(own.Ticket.Place); !ok || k != own.Identity {
		return fmt.Errorf("%w: %s, as the %s", ErrNotEnrolled, own.Identity, own.Ticket.Place)
	}
	return errors.Join(m.pinned(l, ServerPlace, m.Contact.Server), m.pinned(l, AggregatorPlace, m.Contact.Aggregator))
}

func (m *Membership) pinned(l *List, p Place, pin PublicKey) error {
	k, ok := l.Holder(p)
	if !ok || pin.IsZero() || k == pin || l.Revocations.bars(pin) {
		return nil
	}
	return fmt.Errorf("%w: the %s is %s, and should be %s", ErrPinned, p, k, pin)
}
