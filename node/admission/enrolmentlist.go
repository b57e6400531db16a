package admission

import (
	"crypto/ed25519"
	"fmt"

	"github.com/fedsim/fedsim/protocol"
)

// List is the enrolment list: which parties are in the federation. It comes from the
// aggregator, which is not trusted with it: every entry carries the operator's signature.
type List struct {
	Federation  Federation   `json:"federation"`
	Revocations *Revocations `json:"revocations"` // nil: nothing was revoked
	// Enrolments stand in the order server, aggregator, clients by number. A place
	// may be missing, and none is there twice.
	Enrolments []Enrolment `json:"enrolments"`
}

// Verify says whether the operator admitted every party on the list, each to one place,
// and revoked none of them. It cannot detect that a party is left out, or that the
// operator has revoked more since: see Registry.Update.
func (l *List) Verify(operator PublicKey) error {
	return l.verify(operator, func(*Enrolment) bool { return false })
}

// verify passes over the signatures of enrolments that are known to be valid.
func (l *List) verify(operator PublicKey, known func(*Enrolment) bool) error {
	if err := l.Federation.Verify(operator); err != nil {
		return err
	}
	if err := l.Revocations.Verify(&l.Federation); err != nil {
		return err
	}
	barred := newBarred(l.Revocations)
	barred.retired = l.Federation.Retired()
	identities := make(map[PublicKey]bool, len(l.Enrolments))
	for i := range l.Enrolments {
		e := &l.Enrolments[i]
		if i > 0 && l.Enrolments[i-1].Ticket.Place.compare(e.Ticket.Place) >= 0 {
			return fmt.Errorf("%w: the list is not in order at entry %d, the %s", ErrMalformed, i, e.Ticket.Place)
		}
		if identities[e.Identity] {
			return fmt.Errorf("the %s: %w: %s", e.Ticket.Place, ErrIdentityUsed, e.Identity)
		}
		identities[e.Identity] = true
		if err := barred.check(e); err != nil {
			return err
		}
		if known(e) {
			continue
		}
		if err := e.Verify(&l.Federation); err != nil {
			return err
		}
	}
	return nil
}

// Hash is equal for equal lists only. It is the SHA-256 of the transcript of the domain
// "fedsim/admission/list/v1" with the hash of the federation in its latest epoch, the revocations' hash (empty: none) and
// the number of enrolments. The role, client, ticket's serial and identity of each enrolment
// follow.
func (l *List) Hash() Hash {
	federation := l.Federation.Latest()
	t := protocol.NewTranscript("fedsim/admission/list/v1").Bytes(federation[:])
	if l.Revocations == nil {
		t.Bytes(nil)
	} else {
		revocations := l.Revocations.Hash()
		t.Bytes(revocations[:])
	}
	t.Uint(uint64(len(l.Enrolments)))
	for i := range l.Enrolments {
		e := &l.Enrolments[i]
		e.Ticket.Place.write(t).Uint(uint64(e.Ticket.Serial)).Bytes(e.Identity[:])
	}
	return t.Sum()
}

// Holder is the identity that has a place.
func (l *List) Holder(p Place) (PublicKey, bool) {
	for i := range l.Enrolments {
		if l.Enrolments[i].Ticket.Place == p {
			return l.Enrolments[i].Identity, true
		}
	}
	return PublicKey{}, false
}

// vacant stands in the place of a missing client: 32 bytes that are no point of the curve, so that
// no signature verifies with them.
var vacant = [ed25519.PublicKeySize]byte{0: 2}

// Identities are the keys of all N clients of a verified list, by ClientID, as
// secagg.Params takes them. A vacant place has a key with which no signature verifies: to
// the secure sum it is a client that never shows up.
func (l *List) Identities() []ed25519.PublicKey {
	keys := make([]ed25519.PublicKey, l.Federation.Places())
	for i := range keys {
		k := vacant
		keys[i] = k[:]
	}
	for i := range l.Enrolments {
		e := &l.Enrolments[i]
		if p := e.Ticket.Place; p.Role == protocol.Client && p.check(len(keys)) == nil {
			keys[e.Ticket.Place.Client] = e.Identity.Ed25519()
		}
	}
	return keys
}

// Vacant are the clients' places that no party has, ascending, except places that were given up.
func (l *List) Vacant() []protocol.ClientID {
	var ids []protocol.ClientID
	held := make(map[Place]bool, len(l.Enrolments))
	for i := range l.Enrolments {
		held[l.Enrolments[i].Ticket.Place] = true
	}
	for i := range l.Federation.Places() {
		if id := protocol.ClientID(i); !held[ClientPlace(id)] && !l.Federation.Gone(ClientPlace(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// MaxEnrolmentSize limits the text of an enrolment, in bytes.
const MaxEnrolmentSize = 1024

// MaxListSize is the largest size in bytes of the text of a list of the federation, and
// so the most that a party accepts.
func (f *Federation) MaxListSize() int {
	const federation, revocation, epoch = 1024, 256, 512
	retired := 7 * len(f.Retired()) * len(f.Epochs) // in each epoch again
	return federation + len(f.Epochs)*epoch + retired + f.maxRevocations()*revocation + (f.Places()+2)*MaxEnrolmentSize
}
