package admission

import (
	"fmt"
	"sync"
	"time"
)

// redemption is an enrolment that waits to be written.
type redemption struct {
	enrolment *Enrolment
	at        time.Time
	err       error // what became of it, once it is done
	done      bool  // the registry's writing is for it
	written   bool  // what became of it holds only if the write that it was in succeeded
}

// line is where enrolments wait while others are written.
type line struct {
	mu      sync.Mutex
	waiting []*redemption
}

func (l *line) join(x *redemption) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, x)
}

func (l *line) all() []*redemption {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.waiting
	l.waiting = nil
	return out
}

// Redeem records an enrolment: the first to redeem a ticket has the place until the
// operator revokes it. Once it returns nil, that is durable. Repeating it is no error,
// also after the ticket has expired. It is refused with ErrExpired (now is the time
// here), ErrRedeemed, ErrHeld, ErrIdentityUsed, ErrRevoked, ErrSignature, ErrFederation
// or ErrMalformed; the error may be sent to the redeeming party, since everything in it
// is public.
//
// Enrolments that come while others are written are written together, in one entry of
// a disk's time for all of them.
func (r *Registry) Redeem(now time.Time, e *Enrolment) error {
	if err := e.Verify(r.Federation()); err != nil {
		return err
	}
	own := *e
	mine := &redemption{enrolment: &own, at: now}
	r.line.join(mine)
	r.writing.Lock()
	defer r.writing.Unlock()
	if !mine.done { // by who held writing before, since it was in the line
		r.redeem(r.line.all())
	}
	return mine.err
}

// redeem decides on verified enrolments, in their order, and writes the accepted ones, all or none.
// The caller holds writing.
func (r *Registry) redeem(batch []*redemption) {
	fresh := newState() // who is in once it is written
	fresh.barred = r.barred
	var texts [][]byte
	err := r.recover()
	for _, x := range batch {
		x.done = true
		if x.written = err != nil; x.written {
			continue
		}
		var text []byte
		if text, x.err = r.decide(x, &fresh); text != nil {
			texts = append(texts, text)
			fresh.enter(x.enrolment)
		}
	}
	if err == nil && len(texts) > 0 {
		err = r.write(texts...)
	}
	if err != nil {
		for _, x := range batch {
			if x.written {
				x.err = fmt.Errorf("enrolling the %s: %w", x.enrolment.Ticket.Place, err)
			}
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range fresh.places {
		r.enter(e)
	}
}

// decide says what becomes of an enrolment, and gives its text if it is to be written.
func (r *Registry) decide(x *redemption, fresh *state) ([]byte, error) {
	e := x.enrolment
	if r.has(e) {
		return nil, nil
	}
	if err := r.admit(e); err != nil {
		return nil, err
	}
	if end := e.Ticket.NotAfter; x.at.After(end.Add(clockSkew)) {
		return nil, fmt.Errorf("%w: the %s's was good until %v", ErrExpired, e.Ticket.Place, end)
	}
	x.written = true
	if fresh.has(e) {
		return nil, nil
	}
	if err := fresh.admit(e); err != nil {
		return nil, err // because of one before it, if that can be written
	}
	text, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("enrolling the %s: %w", e.Ticket.Place, err)
	}
	return text, nil
}
