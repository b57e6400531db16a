package admission

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/merkle"
	"github.com/fedsim/fedsim/protocol"
)

// List is the enrolment list: which parties are in the federation. It comes from the
// aggregator, which is not trusted with it: every entry carries the operator's signature.
type List struct {
	Federation  Federation   `json:"federation"`
	Revocations *Revocations `json:"revocations"` // nil: nothing was revoked
	// Enrolments stand in the order server, aggregator, clients by number. A place may be missing, and none is there twice.
	Enrolments []Enrolment `json:"enrolments"`
	// Part, if set, says that these are some enrolments of a longer list.
	Part *Part `json:"part,omitempty"`
	// Added says that the reader adds these enrolments to the list that it has.
	Added bool `json:"added,omitempty"`
}

// Part proves that enrolments are on a longer list. The hash of the list is the same for all of its parts.
type Part struct {
	Enrolled  int    `json:"enrolled"`  // parties on the whole list
	Positions []int  `json:"positions"` // of the enrolments on it, from 0, ascending
	Proof     []Hash `json:"proof"`     // of package merkle
}

// excerpt is the part of a list with the parties at some places. tree is the list's.
func (l *List) excerpt(tree *merkle.Tree, places ...Place) *List {
	out := &List{Federation: l.Federation, Revocations: l.Revocations, Enrolments: []Enrolment{}, Part: &Part{Enrolled: len(l.Enrolments), Positions: []int{}, Proof: []Hash{}}}
	for _, p := range places {
		if i, found := slices.BinarySearchFunc(l.Enrolments, p, func(e Enrolment, p Place) int { return e.Ticket.Place.compare(p) }); found {
			out.Enrolments, out.Part.Positions = append(out.Enrolments, l.Enrolments[i]), append(out.Part.Positions, i)
		}
	}
	for _, h := range tree.Prove(out.Part.Positions) {
		out.Part.Proof = append(out.Part.Proof, Hash(h))
	}
	return out
}

// added is the list of the parties that a list has and an older one lacks; false if more than that is new.
func (l *List) added(old *List) (*List, bool) {
	if old == nil || l.Federation.Latest() != old.Federation.Latest() || l.Revocations.serial() != old.Revocations.serial() {
		return nil, false
	}
	out := &List{Federation: l.Federation, Revocations: l.Revocations, Enrolments: []Enrolment{}, Added: true}
	for i, k := 0, 0; i < len(l.Enrolments); i++ {
		if k < len(old.Enrolments) && old.Enrolments[k].same(&l.Enrolments[i]) {
			k++
		} else {
			out.Enrolments = append(out.Enrolments, l.Enrolments[i])
		}
	}
	return out, true
}

// leaves are the hashes of the enrolments in a tree: each of a transcript of the domain "fedsim/admission/party/v1" with
// the role, client, ticket's serial and identity.
func (l *List) leaves() []protocol.Hash {
	out := make([]protocol.Hash, len(l.Enrolments))
	for i := range l.Enrolments {
		e := &l.Enrolments[i]
		t := e.Ticket.Place.write(protocol.NewTranscript("fedsim/admission/party/v1"))
		out[i] = merkle.Leaf(t.Uint(uint64(e.Ticket.Serial)).Bytes(e.Identity[:]).Encoding())
	}
	return out
}

// root is the number of parties on the whole list, and the root of the tree of them. A list of no party has no root.
func (l *List) root() (n int, root protocol.Hash, err error) {
	switch {
	case l.Part != nil:
		proof := lists.Map(l.Part.Proof, func(h Hash) protocol.Hash { return protocol.Hash(h) })
		if root, err = merkle.Root(l.Part.Enrolled, l.Part.Positions, l.leaves(), proof); err != nil {
			err = fmt.Errorf("%w: the part of a list of %d: %w", ErrMalformed, l.Part.Enrolled, err)
		}
		return l.Part.Enrolled, root, err
	case len(l.Enrolments) > 0:
		root = merkle.New(l.leaves()).Root()
	}
	return len(l.Enrolments), root, nil
}

// Verify says whether the operator admitted every party on the list, each to one place, and revoked none of them. It cannot detect that a
// party is left out, or that the operator has revoked more since: see Registry.Update.
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
	if l.Part != nil {
		if n, _, err := l.root(); err != nil || n > l.Federation.Places()+2 {
			return errors.Join(ErrMalformed, err)
		}
	}
	barred := newBarred(l.Revocations, l.Federation.Retired())
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

// Hash is equal for equal lists, and parts of them, only. It is the SHA-256 of the transcript of the domain
// "fedsim/admission/list/v2". The fields are the hash of the federation in its latest epoch, the revocations' hash (empty: none),
// the number of enrolments and the root of the tree of them.
func (l *List) Hash() Hash {
	federation := l.Federation.Latest()
	t := protocol.NewTranscript("fedsim/admission/list/v2").Bytes(federation[:])
	if l.Revocations == nil {
		t.Bytes(nil)
	} else {
		revocations := l.Revocations.Hash()
		t.Bytes(revocations[:])
	}
	n, root, _ := l.root() // a proof that does not hold is refused before
	return t.Uint(uint64(n)).Bytes(root[:]).Sum()
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

// vacant stands in the place of a missing client: 32 bytes that are no point of the curve, so that no signature verifies with them.
var vacant = [ed25519.PublicKeySize]byte{0: 2}

// Identities are the keys of all N clients of a verified list, by ClientID, as secagg.Params takes them. A vacant place has a key with
// which no signature verifies: to the secure sum it is a client that never shows up.
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

// MaxListSize is the largest size in bytes of the text of a list of the federation, and so the most that a party accepts.
func (f *Federation) MaxListSize() int {
	const federation, revocation, epoch = 4096, 256, 512 // with a proof of a part
	retired := 7 * len(f.Retired()) * len(f.Epochs)      // in each epoch again
	return federation + len(f.Epochs)*epoch + retired + f.maxRevocations()*revocation + (f.Places()+2)*MaxEnrolmentSize
}
