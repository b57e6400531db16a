package admission

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/merkle"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// List is the enrolment list: which parties are in the federation. It comes from the
// aggregator, which is not trusted with it: every entry carries the operator's signature.
type List struct {
	Federation  Federation   `json:"federation"`
	Revocations *Revocations `json:"revocations"` // nil: nothing was revoked
	// Enrolments stand in the order server, aggregator, clients by number. A place may be missing, and none is there twice.
	Enrolments []*Enrolment `json:"enrolments"`
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

// leaves are the hashes of the enrolments in a tree: each of a transcript of the domain "fedsim/admission/party/v1" with
// the role, client, ticket's serial and identity.
func (l *List) leaves() []protocol.Hash {
	return lists.Map(l.Enrolments, func(e *Enrolment) protocol.Hash {
		t := e.Ticket.Place.write(protocol.NewTranscript("fedsim/admission/party/v1"))
		return merkle.Leaf(t.Uint(uint64(e.Ticket.Serial)).Bytes(e.Identity[:]).Encoding())
	})
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
	if err := cmp.Or(l.Federation.Verify(operator), l.Revocations.Verify(&l.Federation)); err != nil {
		return err
	}
	if l.Part != nil {
		if n, _, err := l.root(); err != nil || n > l.Federation.Places()+2 {
			return errors.Join(ErrMalformed, err)
		}
	}
	barred := l.barred()
	for i, e := range l.Enrolments {
		if i > 0 && l.Enrolments[i-1].Ticket.Place.compare(e.Ticket.Place) >= 0 {
			return fmt.Errorf("%w: the list is not in order at entry %d, the %s", ErrMalformed, i, e.Ticket.Place)
		}
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
	_, err := l.identities()
	return err
}

// identities finds parties by their keys, on a list that is in order. It refuses two parties in one place, and a key in two places.
func (l *List) identities() (map[PublicKey]Place, error) {
	out := make(map[PublicKey]Place, len(l.Enrolments))
	for i, e := range l.Enrolments {
		p := e.Ticket.Place
		if held := l.Enrolments[max(0, i-1)]; i > 0 && held.Ticket.Place == p {
			if held.Ticket.same(&e.Ticket) {
				return nil, fmt.Errorf("%w: the %s is %s", ErrRedeemed, p, held.Identity)
			}
			return nil, fmt.Errorf("%w: the %s is %s, with ticket %d", ErrHeld, p, held.Identity, held.Ticket.Serial)
		}
		if other, used := out[e.Identity]; used {
			return nil, fmt.Errorf("%w: %s, as the %s and the %s", ErrIdentityUsed, e.Identity, other, p)
		}
		out[e.Identity] = p
	}
	return out, nil
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

// at is the position of a place, if it is on a list in order.
func (l *List) at(p Place) (int, bool) {
	return slices.BinarySearchFunc(l.Enrolments, p, func(e *Enrolment, p Place) int { return e.Ticket.Place.compare(p) })
}

// holds says whether an enrolment, or another that means the same, is on a list in order.
func (l *List) holds(e *Enrolment) bool {
	i, ok := l.at(e.Ticket.Place)
	return ok && l.Enrolments[i].same(e)
}

// Holder is the identity that has a place on a verified list.
func (l *List) Holder(p Place) (PublicKey, bool) {
	i, ok := l.at(p)
	if !ok {
		return PublicKey{}, false
	}
	return l.Enrolments[i].Identity, true
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
	for _, e := range l.Enrolments {
		if p := e.Ticket.Place; p.Role == protocol.Client && p.check(len(keys)) == nil {
			keys[p.Client] = e.Identity.Ed25519()
		}
	}
	return keys
}

// Vacant are the clients' places that no party has, ascending, except places that were given up.
func (l *List) Vacant() []protocol.ClientID {
	var ids []protocol.ClientID
	for id := range protocol.ClientID(l.Federation.Places()) {
		if _, held := l.at(ClientPlace(id)); !held && !l.Federation.Gone(ClientPlace(id)) {
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

// Revocation takes a place away from the party that has it.
type Revocation struct {
	Place Place `json:"place"`
	// Serial: all tickets of the place up to this one are void, redeemed or not.
	Serial uint32 `json:"serial"`
	// Identity may not take any place any more, with any ticket. Zero: only the tickets
	// are void, for invitations that got into the wrong hands.
	Identity PublicKey `json:"identity,omitzero"`
}

func (r Revocation) compare(o Revocation) int {
	return cmp.Or(r.Place.compare(o.Place), cmp.Compare(r.Serial, o.Serial), bytes.Compare(r.Identity[:], o.Identity[:]))
}

func (r Revocation) check() error {
	errs := problems.List{r.Place.check(MaxClients)} // a party may know of the revocation before it knows of the epoch
	errs.If(r.Serial == 0, "%w: serial 0 of the %s is revoked; tickets count from 1", ErrMalformed, r.Place)
	if !r.Identity.IsZero() {
		errs = append(errs, r.Identity.check())
	}
	return errors.Join(errs...)
}

// Revocations is everything that the operator has revoked in a federation, signed. A nil
// *Revocations revokes nothing. Revocations are permanent: each document has all entries of its
// predecessor.
type Revocations struct {
	Federation Hash         `json:"federation"`
	Serial     uint64       `json:"serial"`  // counts the documents, from 1
	Entries    []Revocation `json:"entries"` // by place, serial and identity, none twice
	Signature  Signature    `json:"signature"`
}

// Revoke adds entries to what was revoked before, old, which is nil the first time.
func Revoke(operator PrivateKey, f *Federation, old *Revocations, entries ...Revocation) (*Revocations, error) {
	if err := f.signedBy(operator); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := e.Place.check(f.Places()); err != nil {
			return nil, err
		}
	}
	if err := old.Verify(f); err != nil {
		return nil, fmt.Errorf("the revocations before: %w", err)
	}
	r := &Revocations{Federation: f.Hash(), Serial: old.serial() + 1, Entries: entries}
	if old != nil {
		r.Entries = append(slices.Clone(old.Entries), entries...)
	}
	slices.SortFunc(r.Entries, Revocation.compare)
	r.Entries = slices.Compact(r.Entries)
	if err := r.check(f); err != nil {
		return nil, err
	}
	r.Signature = operator.Sign(r.Hash())
	return r, nil
}

// Hash is the SHA-256 of the transcript of the domain "fedsim/admission/revocations/v1" with the federation's hash, the serial, the number
// of entries, and of each role, client, serial and identity (empty: none). The signature is over it.
func (r *Revocations) Hash() Hash {
	t := protocol.NewTranscript("fedsim/admission/revocations/v1").Bytes(r.Federation[:]).Uint(r.Serial).Uint(uint64(len(r.Entries)))
	for _, e := range r.Entries {
		e.Place.write(t).Uint(uint64(e.Serial))
		if e.Identity.IsZero() {
			t.Bytes(nil)
		} else {
			t.Bytes(e.Identity[:])
		}
	}
	return t.Sum()
}

// Verify says whether the operator signed the document. It cannot detect that there is a newer one: see Follows.
func (r *Revocations) Verify(f *Federation) error {
	if r == nil {
		return nil
	}
	if err := cmp.Or(f.own(r.Federation, "list of revocations"), r.check(f)); err != nil {
		return err
	}
	if !f.Signer().Verify(r.Hash(), r.Signature) {
		return fmt.Errorf("%w: revocations %d are not signed by the operator %s", ErrSignature, r.Serial, f.Signer())
	}
	return nil
}

func (r *Revocations) check(f *Federation) error {
	switch {
	case r.Serial == 0:
		return fmt.Errorf("%w: revocations of serial 0; they count from 1", ErrMalformed)
	case len(r.Entries) == 0 || len(r.Entries) > f.maxRevocations():
		return fmt.Errorf("%w: %d revocations; a federation of %d clients can have 1 to %d, then another must be founded",
			ErrMalformed, len(r.Entries), f.Places(), f.maxRevocations())
	}
	for i, e := range r.Entries {
		if err := e.check(); err != nil {
			return err
		}
		if i > 0 && r.Entries[i-1].compare(e) >= 0 {
			return fmt.Errorf("%w: revocations are not in order at entry %d, the %s", ErrMalformed, i, e.Place)
		}
	}
	return nil
}

// Check says whether an enrolment is revoked: ErrRevoked.
func (r *Revocations) Check(e *Enrolment) error { return (&List{Revocations: r}).barred().check(e) }

// Follows says whether the document, which is verified, may replace a verified older one:
// it is newer and has all of its entries, or is the same.
func (r *Revocations) Follows(old *Revocations) error {
	switch {
	case old == nil:
		return nil
	case r.serial() < old.Serial:
		return fmt.Errorf("%w: serial %d, after %d", ErrOutdated, r.serial(), old.Serial)
	case r.Serial == old.Serial:
		if r.Hash() != old.Hash() {
			return fmt.Errorf("%w: the operator signed two different documents of serial %d", ErrForgotten, r.Serial)
		}
		return nil
	}
	for _, e := range old.Entries {
		if _, ok := slices.BinarySearchFunc(r.Entries, e, Revocation.compare); !ok {
			return fmt.Errorf("%w: serial %d revoked the %s up to ticket %d, and serial %d does not", ErrForgotten, old.Serial, e.Place, e.Serial, r.Serial)
		}
	}
	return nil
}

// NextSerial returns the serial for the next ticket of the place: the first that is not revoked.
func (r *Revocations) NextSerial(p Place) uint32 {
	return (&List{Revocations: r}).barred().serials[p] + 1
}

// clone is a copy that shares nothing.
func (r *Revocations) clone() *Revocations {
	if r == nil {
		return nil
	}
	c := *r
	c.Entries = slices.Clone(r.Entries)
	return &c
}

func (r *Revocations) serial() uint64 {
	if r == nil {
		return 0
	}
	return r.Serial
}

// maxRevocations bounds the cost of reading a document: four for each client, and a thousand.
func (f *Federation) maxRevocations() int { return 1000 + 4*f.Places() }

// barred indexes what a list bars for look-ups.
type barred struct {
	serials    map[Place]uint32 // the last ticket that is void
	identities map[PublicKey]bool
	federation *Federation // some of whose places were given up
}

func (l *List) barred() barred {
	b := barred{make(map[Place]uint32), make(map[PublicKey]bool), &l.Federation}
	if l.Revocations == nil {
		return b
	}
	for _, e := range l.Revocations.Entries {
		b.serials[e.Place] = e.Serial // they ascend
		if !e.Identity.IsZero() {
			b.identities[e.Identity] = true
		}
	}
	return b
}

func (b barred) check(e *Enrolment) error {
	switch t := &e.Ticket; {
	case t.Serial <= b.serials[t.Place]:
		return fmt.Errorf("%w: the tickets of the %s up to %d", ErrRevoked, t.Place, b.serials[t.Place])
	case b.federation.Gone(t.Place):
		return fmt.Errorf("%w: the place of the %s was given up", ErrRevoked, t.Place)
	case b.identities[e.Identity]:
		return fmt.Errorf("%w: the identity %s", ErrRevoked, e.Identity)
	}
	return nil
}
