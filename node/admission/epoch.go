package admission

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Epoch changes the places of a federation, signed by its operator: there are more of them, or some
// are given up. Or it hands the federation over to another key of the operator. Each epoch names its predecessor, so that all parties
// check one chain. Identities, tickets and ledgers stay as they are.
type Epoch struct {
	Number   uint32 `json:"number"`   // from 1
	Previous Hash   `json:"previous"` // of the epoch before, or of the federation
	Clients  int    `json:"clients"`  // places of clients from now on; never fewer than before
	// Retired are the clients' places that were given up so far, ascending. Each epoch has all of its predecessor.
	Retired []protocol.ClientID `json:"retired,omitempty"`
	Created time.Time           `json:"created"` // UTC, whole seconds
	// Operator, if set, is the operator's key from now on. The earlier key signs this epoch, or the federation's recovery key.
	Operator  PublicKey `json:"operator,omitzero"`
	Signature Signature `json:"signature"`
}

// maxEpochs limits the epochs of a federation.
const maxEpochs = 1000

// ErrEpoch is wrapped where epochs of a federation contradict one another.
var ErrEpoch = errors.New("admission: the epochs of the federation do not follow one another")

// Hash is the SHA-256 of the transcript of the domain "fedsim/admission/epoch/v1" with number, the
// hash before, places, the number of places given up, each of these, and creation in seconds since
// 1970. An operator's new key follows if there is one. The signature is over it.
func (e *Epoch) Hash() Hash {
	t := protocol.NewTranscript("fedsim/admission/epoch/v1").Uint(uint64(e.Number)).Bytes(e.Previous[:]).Uint(uint64(e.Clients)).Uint(uint64(len(e.Retired)))
	for _, id := range e.Retired {
		t.Uint(uint64(id))
	}
	if t.Uint(uint64(e.Created.Unix())); !e.Operator.IsZero() {
		t.Bytes(e.Operator[:])
	}
	return t.Sum()
}

// Signer is the operator's key in the latest epoch. It signs tickets and revocations. A federation stays known by the key that founded it.
func (f *Federation) Signer() PublicKey {
	for _, e := range slices.Backward(f.Epochs) {
		if !e.Operator.IsZero() {
			return e.Operator
		}
	}
	return f.Operator
}

// operates says whether a key is, or was, the operator's.
func (f *Federation) operates(k PublicKey) bool {
	return k == f.Operator || k == f.Recovery || slices.ContainsFunc(f.Epochs, func(e Epoch) bool { return e.Operator == k })
}

// HandOver makes another key the operator's, in another epoch that the present key or the recovery key signs. It signs everything that holds
// anew: the returned list has the federation, the revocations and all parties of a list of the federation. Nothing that the old key
// signs is valid for a party that has taken over that list, so a thief of the old key invites and revokes no party any more.
func (f *Federation) HandOver(signer, next PrivateKey, l *List, now time.Time) (*List, error) {
	if l.Part != nil || l.Added {
		return nil, fmt.Errorf("%w: the list is a part of one", ErrMalformed)
	}
	if err := errors.Join(f.own(l.Federation.Hash(), "list"), l.Verify(f.Operator)); err != nil {
		return nil, err
	}
	if l.Federation.continues(f) == nil { // with epochs that f lacks, for example a thief's
		f = &l.Federation
	}
	if f.operates(next.Public()) {
		return nil, fmt.Errorf("%w: %s is or was the operator's", ErrIdentityUsed, next.Public())
	}
	e := Epoch{Number: uint32(len(f.Epochs) + 1), Previous: f.Latest(), Clients: f.Places(), Retired: f.Retired(), Created: seconds(now), Operator: next.Public()}
	e.Signature = signer.Sign(e.Hash())
	out := &List{Federation: *f, Revocations: l.Revocations.clone(), Enrolments: []*Enrolment{}}
	out.Federation.Epochs = append(slices.Clone(f.Epochs), e)
	if out.Revocations != nil {
		out.Revocations.Signature = next.Sign(out.Revocations.Hash())
	}
	for _, e := range l.Enrolments {
		own := *e
		own.Ticket.Resign(next)
		out.Enrolments = append(out.Enrolments, &own)
	}
	return out, out.Verify(f.Operator)
}

// Resign signs the ticket anew, by an operator's other key.
func (t *Ticket) Resign(operator PrivateKey) { t.Signature = operator.Sign(t.Hash()) }

// last is the latest epoch. Before the first it has the places of the founding.
func (f *Federation) last() *Epoch {
	if n := len(f.Epochs); n > 0 {
		return &f.Epochs[n-1]
	}
	return &Epoch{Clients: f.Clients}
}

// Places is the number of clients' places in the latest epoch, including places that were given up.
func (f *Federation) Places() int { return f.last().Clients }

// Retired are the clients' places that were given up, ascending.
func (f *Federation) Retired() []protocol.ClientID { return f.last().Retired }

// Gone says whether a place was given up.
func (f *Federation) Gone(p Place) bool {
	_, gone := slices.BinarySearch(f.Retired(), p.Client)
	return gone && p.Role == protocol.Client
}

// Had says whether the federation has so many places in its present epoch or had in an earlier one.
func (f *Federation) Had(places int) bool {
	return places == f.Clients || slices.ContainsFunc(f.Epochs, func(e Epoch) bool { return e.Clients == places })
}

// Latest names the federation in its latest epoch.
func (f *Federation) Latest() Hash {
	if n := len(f.Epochs); n > 0 {
		return f.Epochs[n-1].Hash()
	}
	return f.Hash()
}

// Grow returns the federation with another epoch: with more places, and with some given up.
func (f *Federation) Grow(operator PrivateKey, more int, retire []protocol.ClientID, now time.Time) (*Federation, error) {
	if err := f.signedBy(operator); err != nil {
		return nil, err
	}
	for _, id := range retire {
		if f.Gone(ClientPlace(id)) {
			return nil, fmt.Errorf("%w: the %s was given up before", ErrEpoch, ClientPlace(id))
		}
	}
	e := Epoch{Number: uint32(len(f.Epochs) + 1), Previous: f.Latest(), Clients: f.Places() + more, Created: seconds(now)}
	e.Retired = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(f.Retired()), retire...))))
	e.Signature = operator.Sign(e.Hash())
	next := *f
	next.Epochs = append(slices.Clone(f.Epochs), e)
	return &next, next.Verify(f.Operator)
}

func (f *Federation) verifyEpochs() error {
	if len(f.Epochs) > maxEpochs {
		return fmt.Errorf("%w: %d epochs; there can be %d", ErrMalformed, len(f.Epochs), maxEpochs)
	}
	before := *f
	for i := range f.Epochs {
		e := &f.Epochs[i]
		before.Epochs = f.Epochs[:i]
		if err := e.follows(&before); err != nil {
			return fmt.Errorf("epoch %d: %w", i+1, err)
		}
	}
	return nil
}

// follows says whether an epoch is the next one of a federation.
func (e *Epoch) follows(f *Federation) error {
	if err := checkTime("creation of an epoch", e.Created); err != nil {
		return err
	}
	switch {
	case int(e.Number) != len(f.Epochs)+1 || e.Previous != f.Latest():
		return fmt.Errorf("%w: it is number %d, after another one", ErrEpoch, e.Number)
	case e.Clients < f.Places() || e.Clients > MaxClients:
		return fmt.Errorf("%w: %d places of clients, after %d; there can be up to %d, and none fewer", ErrEpoch, e.Clients, f.Places(), MaxClients)
	case f.Signer().Verify(e.Hash(), e.Signature): // the usual way
	case e.Operator.IsZero() || f.Recovery.IsZero() || !f.Recovery.Verify(e.Hash(), e.Signature):
		return fmt.Errorf("%w: it is not signed by the operator %s", ErrSignature, f.Signer())
	}
	if !e.Operator.IsZero() {
		if err := e.Operator.check(); err != nil || f.operates(e.Operator) {
			return errors.Join(ErrIdentityUsed, err)
		}
	}
	for i, id := range e.Retired {
		if int64(id) >= int64(e.Clients) || i > 0 && e.Retired[i-1] >= id {
			return fmt.Errorf("%w: the places that were given up are not in order, or there is no %s", ErrMalformed, ClientPlace(id))
		}
	}
	for _, id := range f.Retired() {
		if _, ok := slices.BinarySearch(e.Retired, id); !ok {
			return fmt.Errorf("%w: the %s was given up before, and is there again", ErrEpoch, ClientPlace(id))
		}
	}
	if e.Clients == f.Places() && len(e.Retired) == len(f.Retired()) && e.Operator.IsZero() {
		return fmt.Errorf("%w: it changes nothing", ErrEpoch)
	}
	return nil
}

// continues says whether a verified federation has all epochs of another: ErrOutdated if it has fewer, ErrEpoch if it has others.
func (f *Federation) continues(old *Federation) error {
	for i := range min(len(f.Epochs), len(old.Epochs)) {
		if f.Epochs[i].Hash() != old.Epochs[i].Hash() {
			return fmt.Errorf("%w: the operator signed two different epochs %d", ErrEpoch, i+1)
		}
	}
	if len(f.Epochs) < len(old.Epochs) {
		return fmt.Errorf("%w: epoch %d of the federation, after %d", ErrOutdated, len(f.Epochs), len(old.Epochs))
	}
	return nil
}
