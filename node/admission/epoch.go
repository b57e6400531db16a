package admission

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Epoch changes the places of a federation, signed by its operator: there are more of them, or some
// are given up. Each epoch names its predecessor, so that all parties check one chain. Identities,
// tickets and ledgers stay as they are.
type Epoch struct {
	Number   uint32 `json:"number"`   // from 1
	Previous Hash   `json:"previous"` // of the epoch before, or of the federation
	Clients  int    `json:"clients"`  // places of clients from now on; never fewer than before
	// Retired are the clients' places that were given up so far, ascending. Each epoch has all of its
	// predecessor.
	Retired   []protocol.ClientID `json:"retired,omitempty"`
	Created   time.Time           `json:"created"` // UTC, whole seconds
	Signature Signature           `json:"signature"`
}

// maxEpochs limits the epochs of a federation.
const maxEpochs = 1000

// ErrEpoch is wrapped where epochs of a federation contradict one another.
var ErrEpoch = errors.New("admission: the epochs of the federation do not follow one another")

// Hash is the SHA-256 of the transcript of the domain "fedsim/admission/epoch/v1" with number, the
// hash before, places, the number of places given up, each of these, and creation in seconds since
// 1970. The signature is over it.
func (e *Epoch) Hash() Hash {
	t := protocol.NewTranscript("fedsim/admission/epoch/v1").Uint(uint64(e.Number)).Bytes(e.Previous[:]).Uint(uint64(e.Clients)).Uint(uint64(len(e.Retired)))
	for _, id := range e.Retired {
		t.Uint(uint64(id))
	}
	return t.Uint(uint64(e.Created.Unix())).Sum()
}

// Places is the number of clients' places in the latest epoch, including places that were given up.
func (f *Federation) Places() int {
	if n := len(f.Epochs); n > 0 {
		return f.Epochs[n-1].Clients
	}
	return f.Clients
}

// Retired are the clients' places that were given up, ascending.
func (f *Federation) Retired() []protocol.ClientID {
	if n := len(f.Epochs); n > 0 {
		return f.Epochs[n-1].Retired
	}
	return nil
}

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
	if operator.Public() != f.Operator {
		return nil, fmt.Errorf("%w: the operator of %q is %s, not %s", ErrFederation, f.Name, f.Operator, operator.Public())
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
	case !f.Operator.Verify(e.Hash(), e.Signature):
		return fmt.Errorf("%w: it is not signed by the operator %s", ErrSignature, f.Operator)
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
	if e.Clients == f.Places() && len(e.Retired) == len(f.Retired()) {
		return fmt.Errorf("%w: it changes nothing", ErrEpoch)
	}
	return nil
}

// continues says whether a verified federation has all epochs of another: ErrOutdated if it has
// fewer, ErrEpoch if it has others.
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

// Federation is the federation in the latest epoch that the registry knows. It must not be changed.
func (r *Registry) Federation() *Federation { return r.federation.Load() }

// Grow takes over the epochs of the operator's newest federation. It returns the enrolments at
// places that were given up; every connection to these parties is to be closed. Once it returns
// without an error, that is durable. An error changes nothing.
func (r *Registry) Grow(f *Federation) ([]Enrolment, error) {
	if err := f.Verify(r.Federation().Operator); err != nil {
		return nil, err
	}
	if err := r.Federation().own(f.Hash(), "federation"); err != nil {
		return nil, err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if err := f.continues(r.Federation()); err != nil {
		return nil, err
	}
	if err := r.recover(); err != nil {
		return nil, err
	}
	switch len(f.Epochs) {
	case r.logged: // all of them are in the log
		return nil, nil
	case len(r.Federation().Epochs):
		return nil, r.write()
	}
	text, err := f.Encode()
	if err == nil {
		err = r.write(text)
	}
	if err != nil {
		return nil, fmt.Errorf("epoch %d of the federation: %w", len(f.Epochs), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	own := *f
	r.federation.Store(&own)
	r.logged = len(own.Epochs)
	return r.retire(own.Retired()), nil
}

// retire takes places out, and returns the enrolments that it removes.
func (s *state) retire(ids []protocol.ClientID) []Enrolment {
	s.version++
	s.barred.retired = ids
	return s.sweep()
}
