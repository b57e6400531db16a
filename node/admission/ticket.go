package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// clockSkew is the lead that the clock of the registry may have over the operator's: the registry
// accepts a ticket for this long after it expires.
const clockSkew = 5 * time.Minute

// Ticket is the operator's signed permission to take a place. Only the invitation contains the
// private half of Key. Its holder may name the identity that takes the place.
type Ticket struct {
	Federation Hash  `json:"federation"`
	Place      Place `json:"place"`
	// Serial counts the tickets of the place, from 1. Revoking one revokes those
	// before it, so a replacement has a higher one.
	Serial    uint32    `json:"serial"`
	Key       PublicKey `json:"key"`       // of one use
	NotAfter  time.Time `json:"not_after"` // UTC, whole seconds
	Signature Signature `json:"signature"` // the operator's
}

// Hash names the ticket: the SHA-256 of the transcript of the domain
// "fedsim/admission/ticket/v1" with the federation's hash, role, client (0 for
// other roles), serial, key, and not-after in seconds since 1970. The operator's
// signature is over it.
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
	if err := f.own(t.Federation, "ticket"); err != nil {
		return err
	}
	if err := t.check(f); err != nil {
		return err
	}
	if !f.Operator.Verify(t.Hash(), t.Signature) {
		return fmt.Errorf("%w: the ticket of the %s is not signed by the operator %s", ErrSignature, t.Place, f.Operator)
	}
	return nil
}

func (t *Ticket) check(f *Federation) error {
	errs := []error{t.Place.check(f.Places()), checkTime("end of a ticket", t.NotAfter), t.Key.check()}
	if t.Serial == 0 {
		errs = append(errs, fmt.Errorf("%w: a ticket of serial 0; they count from 1", ErrMalformed))
	}
	return errors.Join(errs...)
}

// Enrolment is a redeemed ticket: the ticket's key names an identity for the place, and the
// identity signs as well. Every holder of the operator's public key can verify it, whatever way it
// came.
type Enrolment struct {
	Ticket     Ticket    `json:"ticket"`
	Identity   PublicKey `json:"identity"`
	Redemption Signature `json:"redemption"` // by the ticket's key
	Possession Signature `json:"possession"` // by the identity
}

// Verify says whether the operator gave the place to the holder of the ticket's key, whether that
// key named this identity, and whether the identity's private key has signed, too. A Registry or a
// List says whether the ticket was redeemed before or revoked.
func (e *Enrolment) Verify(f *Federation) error {
	if err := e.Ticket.Verify(f); err != nil {
		return err
	}
	if err := e.check(f); err != nil {
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

// check refuses keys of two uses: the operator's is not there in operation, and a
// ticket's has been in other hands.
func (e *Enrolment) check(f *Federation) error {
	if e.Identity == f.Operator || e.Identity == e.Ticket.Key {
		return fmt.Errorf("%w: %s", ErrIdentityUsed, e.Identity)
	}
	return e.Identity.check()
}

// signed returns the hash that one of the two signatures is over: the SHA-256 of the transcript of
// the domain "fedsim/admission/redemption/v1" or "fedsim/admission/possession/v1" with the ticket's
// hash and the identity.
func (e *Enrolment) signed(what string) Hash {
	ticket := e.Ticket.Hash()
	return Hash(protocol.NewTranscript("fedsim/admission/" + what + "/v1").Bytes(ticket[:]).Bytes(e.Identity[:]).Sum())
}

// same says whether two valid enrolments mean the same: their signatures may be
// spelt in several ways.
func (e *Enrolment) same(o *Enrolment) bool {
	return e == o || e.Ticket.same(&o.Ticket) && e.Identity == o.Identity
}
