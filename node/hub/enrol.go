package hub

import (
	"errors"
	"fmt"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
)

// invited are the tickets that an aggregator was told of, by the peer that is known by
// a ticket's key.
type invited struct {
	mu      sync.RWMutex
	tickets map[peer.ID]admission.Ticket
}

// ticket returns a peer's ticket, unless it was revoked. A peer learns when it redeems a ticket
// whether the ticket has expired or been used.
func (v *invited) ticket(id peer.ID, r *admission.Registry) (admission.Ticket, bool) {
	v.mu.RLock()
	t, ok := v.tickets[id]
	v.mu.RUnlock()
	return t, ok && t.Serial >= r.NextSerial(t.Place)
}

// Admit lets the holders of these tickets enrol. Tickets from earlier calls that are not
// among these may no longer be used. The tickets are as ParseTickets returns them.
func (a *Aggregator) Admit(tickets []admission.Ticket) error {
	next := make(map[peer.ID]admission.Ticket, len(tickets))
	for _, t := range tickets {
		id, err := peer.IDOf(t.Key.Ed25519())
		if err != nil {
			return fmt.Errorf("the ticket of the %s: %w", t.Place, err)
		}
		next[id] = t
	}
	a.invited.mu.Lock()
	defer a.invited.mu.Unlock()
	a.invited.tickets = next
	return nil
}

// enrol handles a stream on which a peer redeems a ticket.
func (a *Aggregator) enrol(s network.Stream, log zerolog.Logger) error {
	id := s.Conn().RemotePeer()
	if _, enrolled := a.place(id); enrolled {
		return fmt.Errorf("%w: an enrolled identity has nothing to enrol", session.ErrProtocol)
	}
	ticket, ok := a.invited.ticket(id, a.cfg.Registry)
	if !ok {
		return session.ErrNotEnrolled // withdrawn since it connected
	}
	peer.Within(s, peer.RegisterTimeout)
	m, err := session.Hear(s, enrolSize)
	if err != nil {
		return err
	}
	if err = a.redeem(&ticket, m.Enrol); err != nil {
		if refusal(err) {
			_ = session.Conclude(s, &session.Message{Refused: err.Error()})
		}
		return err
	}
	log.Info().Stringer("place", ticket.Place).Msg("enrolled")
	return session.Conclude(s, &session.Message{Ready: &session.Ready{}})
}

// enrolSize limits the control message around an enrolment, in bytes.
const enrolSize = admission.MaxEnrolmentSize + len(`{"enrol":}`)

// redeem takes an enrolment, durably, if it is of the ticket that the peer proved to
// hold.
func (a *Aggregator) redeem(t *admission.Ticket, text []byte) error {
	e, err := admission.ParseEnrolment(text)
	if err != nil {
		return err
	}
	if e.Ticket.Hash() != t.Hash() {
		return fmt.Errorf("%w: the enrolment is of another ticket than its sender holds", admission.ErrMalformed)
	}
	if a.waitsToGrow(e.Ticket.Place) {
		return errGrowing
	}
	if err = a.cfg.Registry.Redeem(a.now(), e); err != nil {
		return err
	}
	a.relist()
	a.awaitRelays(a.cfg.Registry.Enrolled())
	return nil
}

// refusal says whether an error is the fault of the peer's enrolment, and may be told. Any other
// error is the aggregator's own trouble: it helps to try again later.
func refusal(err error) bool {
	for _, is := range []error{admission.ErrMalformed, admission.ErrSignature, admission.ErrFederation, admission.ErrExpired,
		admission.ErrRedeemed, admission.ErrHeld, admission.ErrIdentityUsed, admission.ErrRevoked} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// relist ends a session whose list has changed. Every party registers again, is shown the new list,
// and continues once the server has signed for it. That costs the round in progress. A session that
// is over stays.
func (a *Aggregator) relist() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.announceList()
	s := a.session
	if s == nil || s.final != nil || s.list == a.cfg.Registry.List().Hash() {
		return
	}
	a.cfg.Log.Info().Msg("the enrolment list has changed: the session continues when the server has signed for it")
	s.stop()
	a.session = nil
	for _, c := range a.conns {
		if c.in == s {
			c.close()
		}
	}
}
