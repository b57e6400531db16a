package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/strictjson"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// ticket returns a peer's ticket, unless it was revoked. A peer learns when it redeems a ticket
// whether the ticket has expired or been used.
func (a *Aggregator) ticket(id peer.ID) (t admission.Ticket, ok bool) {
	if invited := a.invited.Load(); invited != nil {
		t, ok = (*invited)[id]
	}
	return t, ok && t.Serial >= a.cfg.Registry.NextSerial(t.Place)
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
	a.invited.Store(&next)
	return nil
}

// enrol handles a stream on which a peer redeems a ticket.
func (a *Aggregator) enrol(s network.Stream, log zerolog.Logger) error {
	id := s.Conn().RemotePeer()
	if _, enrolled := a.place(id); enrolled {
		return errors.New("node: not for this peer: an enrolled identity has nothing to enrol")
	}
	ticket, ok := a.ticket(id)
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
	e.Ticket = *t // the operator may have signed it anew, with another key
	if a.waitsToGrow(e.Ticket.Place) {
		return errors.New("node: the place is there when the session has ended") // of an epoch that begins then: the party asks again
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
	return slices.ContainsFunc([]error{admission.ErrMalformed, admission.ErrSignature, admission.ErrFederation, admission.ErrExpired,
		admission.ErrRedeemed, admission.ErrHeld, admission.ErrIdentityUsed, admission.ErrRevoked},
		func(is error) bool { return errors.Is(err, is) })
}

// relist ends a session whose list has changed. Every party registers again, is shown the new list,
// and continues once the server has signed for it. That costs the round in progress. A session that
// is over stays.
func (a *Aggregator) relist() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns { // a relay that waits for a session is told; relays in a session register again
		if c.place.Role == protocol.Relay {
			peer.Wake(c.presence)
		}
	}
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

// Grow takes over the operator's newest epochs: more places, or some that are given up. Within a
// session they wait for its end, since the number of clients is a part of what a session promises.
func (a *Aggregator) Grow(f *admission.Federation) error {
	a.mu.Lock()
	running := a.running()
	if running {
		a.growing = f
	}
	a.mu.Unlock()
	if known := a.cfg.Registry.Federation(); running && len(f.Epochs) > len(known.Epochs) {
		a.cfg.Log.Info().Int("places", f.Places()).Msg("the federation grows when the session has ended")
		return nil
	}
	return a.adopt(f)
}

// adopt takes over epochs now.
func (a *Aggregator) adopt(f *admission.Federation) error {
	before := a.cfg.Registry.Federation()
	out, err := a.cfg.Registry.Grow(f)
	a.disconnect(out, "the place was given up")
	if errors.Is(err, admission.ErrOutdated) {
		return nil // a file that was not renewed
	}
	if err != nil || before.Latest() == f.Latest() {
		return err
	}
	a.cfg.Log.Info().Int("places", f.Places()).Int("given_up", len(f.Retired())).Msg("the federation has another epoch")
	if f.Places() > 2*a.founded {
		a.cfg.Log.Warn().Int("places", f.Places()).Int("at_start", a.founded).Msg("start the aggregator again between two sessions: it has room for the connections of the places that there were at its start")
	}
	a.relist()
	return nil
}

// applyGrowth takes over epochs that waited for the end of a session.
func (a *Aggregator) applyGrowth() {
	f := locked.Get(&a.mu, func() (f *admission.Federation) { f, a.growing = a.growing, nil; return f })
	if f == nil {
		return
	}
	if err := a.adopt(f); err != nil {
		a.cfg.Log.Error().Err(err).Msg("the federation has not grown; SIGHUP tries again")
	}
}

// running says whether a session has begun and not ended. The caller holds mu.
func (a *Aggregator) running() bool {
	_, last := a.log.Last()
	return a.session != nil && a.session.final == nil || last != nil && last.Model == nil
}

// waitsToGrow says whether a place is of an epoch that waits for the end of a session.
func (a *Aggregator) waitsToGrow(p admission.Place) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.growing != nil && p.Role == protocol.Client && int64(p.Client) >= int64(a.cfg.Registry.Federation().Places()) && int64(p.Client) < int64(a.growing.Places())
}

func sessionName(id protocol.SessionID) string { return hex.EncodeToString(id[:]) }

// beyond says whether a client's place is not in a session, since it is of a later epoch.
func (s *hubSession) beyond(c *conn) bool {
	return s != nil && c.place.Role == protocol.Client && int64(c.place.Client) >= int64(s.terms.Cohort.All())
}

// isNewSession says whether a description is not of the session that runs.
func (a *Aggregator) isNewSession(p *session.Signed, server admission.PublicKey) bool {
	peek := *p
	peek.Ended = true // whatever epoch it is of
	d, err := peek.Verify(a.cfg.Registry.Federation(), server)
	_, last := a.log.Last()
	return err != nil || last == nil || last.Model != nil || sessionName(d.Terms.Session) != last.Session
}

// Tickets is the file that tells an aggregator whom the operator has invited. Nothing
// in it is secret: the private halves are in the invitations.
type Tickets struct {
	Tickets []admission.Ticket `json:"fedsim-tickets-v1"`
}

// Encode writes tickets as ParseTickets reads them.
func (t Tickets) Encode() ([]byte, error) {
	t.Tickets = append([]admission.Ticket{}, t.Tickets...) // none are written, too
	return json.Marshal(t)
}

// ParseTickets reads the tickets of a federation, each signed by its operator and
// with a key of its own. Errors wrap one of package admission.
func ParseTickets(text []byte, f *admission.Federation) ([]admission.Ticket, error) {
	var t Tickets
	if err := strictjson.Read(text, &t); err != nil {
		return nil, fmt.Errorf("%w: a list of tickets: %w", admission.ErrMalformed, err)
	}
	if t.Tickets == nil {
		return nil, fmt.Errorf("%w: a list of tickets is one object with the key fedsim-tickets-v1", admission.ErrMalformed)
	}
	seen := make(map[admission.PublicKey]bool, len(t.Tickets))
	for i := range t.Tickets {
		ticket := &t.Tickets[i]
		if err := ticket.Verify(f); err != nil {
			return nil, fmt.Errorf("ticket %d, for the %s: %w", i+1, ticket.Place, err)
		}
		if seen[ticket.Key] {
			return nil, fmt.Errorf("ticket %d, for the %s: %w: another ticket has the same key", i+1, ticket.Place, admission.ErrMalformed)
		}
		seen[ticket.Key] = true
	}
	return t.Tickets, nil
}

// latest lists how far sessions have come that the server at a connection has signed: the latest session here, and sessions
// whose ends clients have shown, in case that the aggregator was restored too.
func (a *Aggregator) latest(c *conn) (list []session.Latest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.session; s != nil && s.server == c.key {
		list = append(list, session.Latest{Session: s.terms.Session, Round: s.opened, Ended: s.final != nil})
	}
	return append(list, a.ended[c.key]...)
}

// showEnd notes the end of a session that a client has shown, if the present server has signed it.
func (a *Aggregator) showEnd(e *protocol.End) {
	server, ok := a.cfg.Registry.Holder(admission.ServerPlace)
	if e == nil || !ok || e.Verify(server.Ed25519()) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if end := (session.Latest{Session: e.Session, Ended: true}); !slices.Contains(a.ended[server], end) {
		a.ended[server] = append(a.ended[server], end)
	}
}

// welcome acknowledges a registration, or tells the server that clients came or went.
func (a *Aggregator) welcome(c *conn) error {
	w := &session.Welcome{Life: a.life, At: a.now().UTC().Truncate(time.Minute), Head: c.newer}
	if c.place == admission.ServerPlace {
		w.Connected, w.Latest = a.connected(), a.latest(c)
	}
	if c.place.Role == protocol.Relay {
		w.Heads = a.heads.Encode(lists.Map(a.cfg.Registry.List().Enrolments, func(e *admission.Enrolment) admission.PublicKey { return e.Identity }))
	}
	if c.place.Role != protocol.Client {
		var err error
		if w.List, err = a.listFor(c); err != nil {
			return err
		}
	}
	// For writing alone: the server may be awaited for longer, see serveServer.
	_ = c.stream.SetWriteDeadline(time.Now().Add(peer.RegisterTimeout)) // a stream that takes none fails when it is used
	return session.Say(c.stream, &session.Message{Welcome: w})
}

// listFor returns the parties that a server or a relay lacks; nil: none.
func (a *Aggregator) listFor(c *conn) ([]byte, error) {
	now, text, err := a.cfg.Registry.Since(c.has)
	if c.has == nil && c.shown == sha256.Sum256(text) {
		text = nil
	}
	c.has = now
	return text, err
}
