package hub

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// serveServer takes the description of a session from the server, who looks on
// while clients gather, and then its messages.
func (a *Aggregator) serveServer(c *conn) error {
	_ = c.stream.SetReadDeadline(time.Time{}) // it publishes when it likes
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	heard := session.Notices(ctx, c.stream, session.DescriptorSize)
	var m *session.Message
	for m == nil {
		select {
		case <-c.closed:
			return nil
		case <-c.presence:
			if err := a.welcome(c); err != nil {
				return err
			}
		case n := <-heard:
			if m = n.Message; n.Err != nil {
				return n.Err
			}
		}
	}
	if m.Publish == nil {
		return session.ErrNotice
	}
	s, err := a.publish(c, m.Publish)
	if err != nil {
		peer.Within(c.stream, peer.RegisterTimeout)
		_ = session.Conclude(c.stream, &session.Message{Refused: err.Error(), ForGood: peer.IsFatal(err)})
		return err
	}
	if !a.awaitAcceptance(s, c.closed) {
		return nil
	}
	without := locked.Get(&a.mu, func() session.Declined { return a.declinedIn(s) })
	peer.Within(c.stream, peer.RegisterTimeout)
	if len(without) > 0 {
		if err = session.Say(c.stream, &session.Message{Declined: without}); err != nil {
			return err
		}
	}
	if err = session.Say(c.stream, &session.Message{Ready: &session.Ready{}}); err != nil {
		return err
	}
	return a.carry(c, s, protocol.Party{Role: protocol.Server})
}

// awaitAcceptance returns when the clients that were there at the session's beginning have looked it
// over or gone, or after as long as a stage may take. A plan that came before would find them busy,
// and its first stage would lose that time. It is false if the peer that asked, or the session, is gone.
func (a *Aggregator) awaitAcceptance(s *hubSession, gone <-chan struct{}) bool {
	select {
	case <-s.looked:
	case <-time.After(s.terms.StageTimeout):
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cfg.Log.Warn().Int("clients", len(s.asked)).Msg("clients are still looking the session over, which begins without them")
		s.closeAcceptance()
	case <-gone:
		return false
	case <-s.ctx.Done():
		return false
	}
	return true
}

// answered says that a client which was asked to look the session over has, or is gone.
// The caller holds the aggregator's mu. Of no session it does nothing.
func (s *hubSession) answered(c *conn) {
	if s == nil || s.asked == nil {
		return
	}
	if delete(s.asked, c); len(s.asked) == 0 {
		s.closeAcceptance()
	}
}

// closeAcceptance has the session begin. The caller holds the aggregator's mu.
func (s *hubSession) closeAcceptance() {
	if s.asked != nil {
		s.asked = nil
		close(s.looked)
	}
}

// publish takes the description of a session. A known session continues as it is: the server has
// lost its connection, or was started again. A fatal error says that the description would be refused again, whatever changes
// but the description itself, or the aggregator's settings. All other refusals pass.
func (a *Aggregator) publish(c *conn, p *session.Signed) (*hubSession, error) {
	if a.isNewSession(p, c.key) {
		a.applyGrowth()
	}
	d, err := p.Verify(a.cfg.Registry.Federation(), c.key)
	if err == nil && len(a.cfg.Relays) > 0 && d.Terms.Mode == secagg.Active {
		err = fmt.Errorf("%w: it is in active mode, and this aggregator has relays. A liar is excluded there on the proof of its own message, "+
			"which is no proof after a relay: start the aggregator without relays, or train in mode semi-honest", session.ErrSession)
	}
	if err != nil {
		return nil, peer.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conns[c.place] != c {
		return nil, fmt.Errorf("%w: the server has another connection by now", session.ErrSession)
	}
	old := a.session
	if old != nil && bytes.Equal(old.signed.Descriptor, p.Descriptor) {
		c.in = old
		if old.told != nil {
			_ = c.queue.Add(old.told...) // twice is no harm; the queue is empty
		}
		return old, nil
	}
	list := a.cfg.Registry.List()
	if list.Hash() != d.List {
		return nil, fmt.Errorf("%w: it is for another enrolment list than there is now", session.ErrSession)
	}
	leaf, err := d.Leaf(p, c.key)
	if err != nil {
		return nil, peer.Fatal(err)
	}
	if old != nil && old.terms.Session != d.Terms.Session {
		if err = atomicfile.Remove(a.endPath()); err != nil { // that end goes when another session begins
			return nil, err
		}
	}
	if err = a.log.Add(leaf); err != nil { // before any plan leaves
		return nil, err
	}
	if old != nil {
		old.stop()
	}
	s := a.lead(p, d, c.key, list)
	s.leaf, s.sums = leaf, make(map[uint64]int)
	if old != nil && old.terms.Session == d.Terms.Session && old.sums != nil {
		s.first, s.sums = old.first, old.sums
	}
	c.in = s
	a.begin(s)
	a.cfg.Log.Info().Hex("session", d.Terms.Session[:]).Int("rounds", d.Terms.Steps.Rounds()).Msg("session published")
	return s, nil
}

// begin makes a session the session that there is, and has clients look it over. The caller holds mu.
func (a *Aggregator) begin(s *hubSession) {
	a.session = s
	for _, c := range a.conns {
		if c.in != s && c.via == nil && !s.beyond(c) {
			a.tell(c, s)
		}
	}
	if len(s.asked) == 0 {
		s.closeAcceptance()
	}
	a.cfg.Observer.Session(s.terms.Session)
}

// tell has a client that waits for a session look it over; a client in the session before registers
// again. The caller holds mu.
func (a *Aggregator) tell(c *conn, s *hubSession) {
	if c.in != nil {
		c.close()
		return
	}
	select {
	case c.session <- s:
		c.in, s.asked[c] = s, true
	default: // a client is told once; another peer here must not hold up the rest
		c.close()
	}
}

// grace is the time that a client whose connection is lost has to come back. It dials again at
// once, and pauses for longer only when that has failed.
const grace = 1500 * time.Millisecond

// newSession makes a session without its role.
func (a *Aggregator) newSession(p *session.Signed, d *session.Descriptor, server admission.PublicKey, excluded *exclusions) *hubSession {
	own := session.Signed{Descriptor: p.Descriptor, Signature: p.Signature}
	s := &hubSession{signed: &own, server: server, list: d.List, terms: d.Terms, excluded: excluded,
		lives: make(map[protocol.ClientID][16]byte), behind: make(map[*conn]session.Declined), declined: make(map[protocol.ClientID]session.Decline), asked: make(map[*conn]bool), looked: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(a.ctx)
	for i, ended := range []bool{false, true} {
		shown := own
		shown.Ended = ended
		s.shown[i] = sync.OnceValues((&session.Message{Session: &shown}).Frame)
	}
	return s
}

// lead starts the role that leads a session's sums.
func (a *Aggregator) lead(p *session.Signed, d *session.Descriptor, server admission.PublicKey, list *admission.List) *hubSession {
	excluded := a.loadExcluded(d.Terms.Session, list)
	s := a.newSession(p, d, server, excluded)
	params := s.terms.Sums(list)
	a.drive(s, list, aggregator.New(aggregator.Config{
		Clients: s.terms.Cohort.All(), StageTimeout: s.terms.StageTimeout,
		NewSum: func(u protocol.Setup) (aggregator.Sum, error) {
			sum, err := secagg.NewAggregator(u, params)
			if err != nil {
				return nil, err
			}
			if a.spools != nil {
				sum.SpoolTo(cmp.Or(a.cfg.SharesInMemory, secagg.SharesInMemory), func(pieces int64, size int) (secagg.Spool, error) { return a.spools.Open(pieces, size) })
			}
			return sum, nil
		},
		Rounds: uint64(s.terms.Steps.Rounds()), SitOut: s.terms.SitOut, Excluded: lists.Map(excluded.List, func(e exclusion) protocol.ClientID { return e.Client }),
		Presence: true, Grace: grace, Tail: s.terms.Tail, Gather: s.terms.Patience(),
	}))
	return s
}

func (a *Aggregator) drive(s *hubSession, list *admission.List, r session.Role) {
	s.driver = &session.Driver{
		Role:   r,
		Inputs: make(chan protocol.Input), Runner: a.cfg.Workers, Now: a.now,
		Persist: func([]protocol.Record) error { return nil }, // an aggregator has nothing to keep
		Send:    func(list []protocol.Envelope) { a.send(s, list) },
		Events: func(events []protocol.Event) {
			session.Report(&a.cfg.Log, a.cfg.Observer, events)
			a.keepExcluded(s.excluded, list, events)
		},
	}
	a.busy.Go(func() {
		_ = s.driver.Run(s.ctx)
		if leads, ok := r.(*aggregator.Aggregator); ok {
			leads.Drop()
		}
	})
}

// describe returns the present description of a session for a peer, in a frame to be sent. A client gets the whole list in active
// mode alone, where it checks what other clients sign.
func (a *Aggregator) describe(s *hubSession, c *conn) ([]byte, error) {
	a.mu.Lock()
	shown := s.shown[0]
	if s.final != nil || s.over {
		shown = s.shown[1]
	}
	a.mu.Unlock()
	frame, err := shown()
	if err != nil || c.place.Role != protocol.Client {
		return frame, err
	}
	list := a.cfg.Registry.Text
	if s.terms.Mode != secagg.Active {
		list = func() ([]byte, admission.Hash, error) { return a.cfg.Registry.Excerpt(c.place) }
	}
	text, digest, err := list()
	if err != nil || c.shown == digest {
		return frame, err
	}
	c.shown = digest
	return session.WithList(frame, text), nil
}

// showing is the session that clients are shown. It is nil if the party that signed the session is
// the server no longer, since no party takes part in that session. The caller holds mu.
func (a *Aggregator) showing() *hubSession {
	if a.session == nil {
		return nil
	}
	if place, ok := a.cfg.Registry.Lookup(a.session.server); !ok || place != admission.ServerPlace {
		return nil
	}
	return a.session
}

// agree shows a client or a relay each session that there is, until the peer takes part in one. Meanwhile a relay says how many clients it
// has, and hears who is enrolled. It returns the session and what the peer says of its part; a nil session if the peer registers again.
func (a *Aggregator) agree(c *conn) (*hubSession, *session.Ready, error) {
	_ = c.stream.SetReadDeadline(time.Time{}) // until there is a session
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	notices := session.Notices(ctx, c.stream, session.NoticeSize)
	relays := c.place.Role == protocol.Relay
	s, shown := locked.Get(&a.mu, func() *hubSession { return c.in }), false
	for {
		if s != nil && !shown {
			if err := a.show(c, s); err != nil {
				return nil, nil, err
			}
			shown = true
		}
		select {
		case <-c.closed:
			return nil, nil, nil
		case s = <-c.session:
		case <-c.presence:
			if err := a.welcome(c); err != nil {
				return nil, nil, err
			}
		case n := <-notices:
			switch m := n.Message; {
			case n.Err != nil:
				return nil, nil, n.Err
			case m.Gathered != nil && relays:
				a.behind(c, m.Gathered.Connected, m.Gathered.Enrolled)
			case m.Ready != nil && shown:
				return s, m.Ready, nil
			case shown && (m.Wait != nil || m.Decline != "" && !relays):
				if !a.waits(c, s, m.Decline) {
					return nil, nil, nil
				}
				if m.Decline == session.DeclineUnable { // the end of the stream tells its process that this was heard
					return nil, nil, peer.ErrEnd
				}
				s, shown = nil, false
				_ = c.stream.SetDeadline(time.Time{})
			default:
				return nil, nil, session.ErrNotice
			}
		}
	}
}

// show describes a session to a client or a relay, which looks it over: a relay has its clients do so, too.
func (a *Aggregator) show(c *conn, s *hubSession) error {
	wait := peer.RegisterTimeout + s.terms.StageTimeout
	if c.place.Role == protocol.Relay {
		wait *= 2
		locked.Do(&a.mu, func() { c.enrolled = 0 }) // it says no more before it has looked the session over
		if err := a.welcome(c); err != nil {        // the server that described the session may have enrolled only now
			return err
		}
	}
	now, err := a.describe(s, c)
	if err != nil {
		return err
	}
	peer.Within(c.stream, peer.RegisterTimeout)
	_ = c.stream.SetReadDeadline(time.Now().Add(wait)) // a stream that takes none fails when it is used
	_, err = c.stream.Write(now)
	return err
}

// waits has a peer that was shown a session wait for the next session. A client may have declined this one. It is false if there is
// another session by now: the peer registers again for it.
func (a *Aggregator) waits(c *conn, s *hubSession, kind session.Decline) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	current := s == a.session && a.conns[c.place] == c
	if current && kind != "" {
		a.decline(s, c.place.Client, kind)
	}
	s.answered(c)
	if current {
		c.in = nil
		a.announcePresence() // clients can be counted on
	}
	return current
}

// serveClient has a client take part in a session, and carries its messages.
func (a *Aggregator) serveClient(c *conn) error {
	s, ready, err := a.agree(c)
	if err != nil || s == nil {
		return err
	}
	a.mu.Lock()
	current := s == a.session && a.conns[c.place] == c
	fresh := current && s.lives[c.place.Client] != c.life
	if current {
		s.lives[c.place.Client] = c.life
		a.decline(s, c.place.Client, "")
	}
	if c.queue.Length() == 0 { // else it is sent what it will keep in the place of this
		c.begun = ready.Begun
	}
	a.mu.Unlock()
	if !current {
		return nil // overtaken by another session or connection
	}
	if fresh {
		s.driver.Give(s.ctx, protocol.Registered{Client: c.place.Client})
	}
	s.driver.Give(s.ctx, protocol.Connected{Client: c.place.Client, Connection: c.number})
	moves := func(begins bool, until time.Time) {
		s.driver.Give(s.ctx, protocol.Transfer{Client: c.place.Client, Connection: c.number, Begins: begins, Until: until})
	}
	c.queue.Moves, c.queue.Long = moves, protocol.LongMessage
	defer s.driver.Give(s.ctx, protocol.Disconnected{Client: c.place.Client, Connection: c.number})
	a.mu.Lock()
	s.answered(c)
	if s.final != nil {
		a.proveTo(c, s)
		_ = c.queue.Add(c.rest(protocol.KindFinal, [][]byte{s.final})...)
	}
	a.mu.Unlock()
	return a.carry(c, s, protocol.Party(c.place))
}
