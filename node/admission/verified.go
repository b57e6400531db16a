package admission

import (
	"sync"

	"github.com/fedsim/fedsim/protocol"
)

// Verified remembers which enrolments are valid, for the registries of one process: where
// many parties are shown the same list, its signatures are verified once only. The zero
// value is ready for use, and safe for concurrent use. It grows only with what an
// operator has signed.
type Verified struct {
	mu     sync.RWMutex
	seen   map[Hash]bool
	parsed *List // the last list; must not change; nil: none was
	digest Hash  // of its text
	sure   bool  // it was verified as a whole
}

// parse is ParseList of a text with a digest. It parses a text once if many parties are shown it.
// Callers must not change the list.
func (v *Verified) parse(digest Hash, text []byte) (*List, error) {
	if v == nil {
		return ParseList(text)
	}
	v.mu.Lock() // others wait for the same
	defer v.mu.Unlock()
	if v.parsed != nil && v.digest == digest {
		return v.parsed, nil
	}
	l, err := ParseList(text)
	if err == nil {
		v.parsed, v.digest, v.sure = l, digest, false
	}
	return l, err
}

// whole says whether the very list was verified.
func (v *Verified) whole(l *List) bool {
	if v == nil {
		return false
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.sure && v.parsed == l
}

// name is the same for enrolments that are the same to the byte, signatures included:
// what is only meant the same would be kept without having been verified.
func (e *Enrolment) name() (Hash, error) {
	end, err := e.Ticket.NotAfter.MarshalText() // the ticket's hash leaves fractions and zones out
	if err != nil {
		return Hash{}, err
	}
	ticket := e.Ticket.Hash()
	return Hash(protocol.NewTranscript("fedsim/admission/verified/v1").Bytes(ticket[:]).Bytes(end).Bytes(e.Ticket.Signature[:]).
		Bytes(e.Identity[:]).Bytes(e.Redemption[:]).Bytes(e.Possession[:]).Sum()), nil
}

// has says whether an enrolment in the federation was verified. It is false of a nil
// Verified.
func (v *Verified) has(federation Hash, e *Enrolment) bool {
	if v == nil || e.Ticket.Federation != federation {
		return false
	}
	name, err := e.name()
	if err != nil {
		return false // verifying it gives the error
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.seen[name]
}

func (v *Verified) add(e *Enrolment) {
	if v == nil {
		return
	}
	name, err := e.name()
	if err != nil {
		return // of no use, but no harm
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil {
		v.seen = make(map[Hash]bool)
	}
	v.seen[name] = true
}

// addWhole remembers the last list as verified.
func (v *Verified) addWhole(l *List) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sure = v.sure || v.parsed == l
}
