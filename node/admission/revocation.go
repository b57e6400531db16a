package admission

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

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
	if err := f.own(r.Federation, "list of revocations"); err != nil {
		return err
	}
	if err := r.check(f); err != nil {
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
func (r *Revocations) Check(e *Enrolment) error { return newBarred(r, nil).check(e) }

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
func (r *Revocations) NextSerial(p Place) uint32 { return newBarred(r, nil).serials[p] + 1 }

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

func (r *Revocations) bars(k PublicKey) bool { return newBarred(r, nil).identities[k] }

// maxRevocations bounds the cost of reading a document: four for each client, and a thousand.
func (f *Federation) maxRevocations() int { return 1000 + 4*f.Places() }

// barred indexes a document of revocations for look-ups.
type barred struct {
	serials    map[Place]uint32 // the last ticket that is void
	identities map[PublicKey]bool
	retired    []protocol.ClientID // places that were given up
}

func newBarred(r *Revocations, retired []protocol.ClientID) barred {
	b := barred{serials: make(map[Place]uint32), identities: make(map[PublicKey]bool), retired: retired}
	if r == nil {
		return b
	}
	for _, e := range r.Entries {
		b.serials[e.Place] = e.Serial // they ascend
		if !e.Identity.IsZero() {
			b.identities[e.Identity] = true
		}
	}
	return b
}

func (b barred) check(e *Enrolment) error {
	if t := &e.Ticket; t.Serial <= b.serials[t.Place] {
		return fmt.Errorf("%w: the tickets of the %s up to %d", ErrRevoked, t.Place, b.serials[t.Place])
	}
	if _, gone := slices.BinarySearch(b.retired, e.Ticket.Place.Client); gone && e.Ticket.Place.Role == protocol.Client {
		return fmt.Errorf("%w: the place of the %s was given up", ErrRevoked, e.Ticket.Place)
	}
	if b.identities[e.Identity] {
		return fmt.Errorf("%w: the identity %s", ErrRevoked, e.Identity)
	}
	return nil
}
