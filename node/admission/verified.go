package admission

import (
	"slices"
	"sync"
)

// Verified keeps the last list that a registry of the process has verified. Its other registries are shown the same list,
// or a list with a few more parties, and verify only what is new in it. The zero value is ready for use, and safe for concurrent use.
type Verified struct {
	mu     sync.RWMutex
	parsed *List // the last list; must not change; nil: none was
	digest Hash  // of its text
	sure   *List // the last list that was verified as a whole; nil: none was
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
		v.parsed, v.digest = l, digest
	}
	return l, err
}

// has says whether the very enrolment, signatures included, was verified in the federation. It is false of a nil Verified.
func (v *Verified) has(federation Hash, e *Enrolment) bool {
	l := v.last()
	if l == nil || e.Ticket.Federation != federation {
		return false
	}
	i, found := slices.BinarySearchFunc(l.Enrolments, e.Ticket.Place, func(x Enrolment, p Place) int { return x.Ticket.Place.compare(p) })
	return found && l.Enrolments[i] == *e
}

func (v *Verified) last() *List {
	if v == nil {
		return nil
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.sure
}

func (v *Verified) remember(l *List) {
	if v != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.sure = l
	}
}
