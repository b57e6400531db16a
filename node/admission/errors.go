package admission

import "errors"

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
	ErrRevoked = errors.New("admission: the operator has revoked this")
	// ErrOutdated: the revocations are older than those already known.
	ErrOutdated = errors.New("admission: newer revocations than these are known")
	// ErrForgotten: something that was there before is missing although nothing revoked
	// it.
	ErrForgotten = errors.New("admission: what stood before must stand until the operator revokes it")
	// ErrPinned: a party's key differs from the key that the invitation names.
	ErrPinned = errors.New("admission: this is not the key that the invitation names; ask the operator which one is right")
	// ErrNotEnrolled: a party is not on a list.
	ErrNotEnrolled = errors.New("admission: not on the enrolment list")
	// ErrExposed: other users of the machine can read the file of a secret.
	ErrExposed = errors.New("admission: others can read this secret")
)
