package hub

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/relay"
)

// carry reads and writes the messages of a registered peer until its stream ends.
func (a *Aggregator) carry(c *conn, s *hubSession, from protocol.Party) error {
	_ = c.stream.SetDeadline(time.Time{})
	wrote := c.write(&a.busy)
	defer c.close()
	r := wire.NewReader(c.stream, s.terms.Limits(from.Role, protocol.Aggregator)) // also of a relay, which clients take for it
	r.Watch(func(begins bool) {
		until := time.Time{} // it may say nothing for as long as it likes, but not stop within a message
		if begins {
			until = time.Now().Add(peer.Patience)
		}
		_ = c.stream.SetReadDeadline(until) // a stream that takes none fails when it is used
		if c.queue.Moves != nil {
			c.queue.Moves(begins, time.Time{})
		}
	})
	pace := rate.NewLimiter(messagesPerSecond, messagesAtOnce)
	for {
		m, err := r.Read()
		if _, malformed := errors.AsType[*wire.FieldError](err); malformed {
			a.cfg.Log.Warn().Stringer("party", from).Err(err).Msg("message refused")
			m = nil
		} else if from.Role == protocol.Server && errors.Is(err, io.EOF) {
			c.queue.End() // by which the server knows that what it said last has arrived, behind the receipt
			<-wrote
			c.once.Do(func() { close(c.closed) }) // a reset would overtake the end
			return peer.ErrEnd
		} else if err != nil {
			return peer.IgnoreEOF(err)
		}
		// A peer that sends more is read more slowly, which is all that it notices.
		if err = pace.Wait(s.ctx); err != nil {
			return nil
		}
		if m == nil {
			continue
		}
		if f, ok := m.(*protocol.Final); ok && from.Role == protocol.Server {
			if err = a.keepFinal(s, f); err != nil {
				return fmt.Errorf("keeping the end of the session: %w", err)
			}
			if answer, failed := wire.AppendFrames(nil, &protocol.Final{Receipt: f.Receipt}); failed == nil {
				_ = c.queue.Add(answer)
			}
			a.paid.Set(false)
			a.busy.Go(a.applyGrowth)
		}
		a.heard(c.place, m)
		if o, ok := m.(*protocol.Open); ok && from.Role == protocol.Server && o.Plan != nil {
			a.paid.Set(false) // the server has the sum of the round before
			locked.Do(&a.mu, func() { s.opened, s.first = max(s.opened, o.Plan.Round), cmp.Or(s.first, o.Plan.Round) })
		}
		s.driver.Give(s.ctx, protocol.Received{Envelope: protocol.Envelope{From: from, To: protocol.Party{Role: protocol.Aggregator}, Message: m}})
	}
}

// How often a peer may speak: a round is at most five messages.
const (
	messagesPerSecond = 20
	messagesAtOnce    = 40
)

// send queues messages for whom they are for; a client that is not there misses them.
func (a *Aggregator) send(s *hubSession, list []protocol.Envelope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s != a.session {
		return
	}
	post := new(frameCache)
	if slices.ContainsFunc(list, func(e protocol.Envelope) bool { return e.Message.Kind() == protocol.KindProceed }) {
		a.paid.Set(true)
	}
	for _, e := range relay.Wrap(list, a.through) {
		if e.To.Role == protocol.Aggregator {
			if err := s.sendUp(e.Message); err != nil {
				a.cfg.Log.Error().Err(err).Stringer("kind", e.Message.Kind()).Msg("not sent to the aggregator")
			}
			continue
		}
		c := a.conns[admission.Place(e.To)]
		there := c != nil && c.in == s
		if !there && e.To.Role != protocol.Server {
			continue
		}
		if !protocol.IsWhole(e.Message) {
			a.sendLater(c, e, post)
			continue
		}
		pieces, err := post.frames(e.Message)
		if err != nil {
			a.cfg.Log.Error().Err(err).Stringer("kind", e.Message.Kind()).Msg("a message cannot be encoded")
			continue
		}
		if e.To.Role == protocol.Server {
			s.told = pieces // it comes back for it
			if sum, ok := e.Message.(*protocol.Result); ok && s.sums != nil {
				s.sums[sum.Round] = sum.Survivors
			}
		}
		if !there {
			continue
		}
		// A new plan, and the end, make useless what waits for a client: it is of earlier rounds. A relay has messages of many.
		kind := e.Message.Kind()
		if c.place.Role == protocol.Client && (kind == protocol.KindAnnounce || kind == protocol.KindFinal) {
			c.queue.Stale()
		}
		if err := c.queue.Add(c.rest(kind, pieces)...); err != nil {
			a.cfg.Log.Warn().Err(err).Stringer("party", e.To).Msg("let go")
			c.close()
		}
	}
}

// sendLater queues a message whose long parts are loaded when it is written. The caller holds mu.
func (a *Aggregator) sendLater(c *conn, e protocol.Envelope, post *frameCache) {
	if c.place.Role == protocol.Client && e.Message.Kind() == protocol.KindAnnounce {
		c.queue.Stale()
	}
	begun := c.begun
	if e.Message.Kind() == protocol.KindAnnounce {
		c.begun = nil
	}
	c.queue.AddLater(func() ([][]byte, error) {
		m, err := protocol.Whole(e.Message)
		if errors.Is(err, fs.ErrClosed) {
			return nil, nil // the stage is over
		}
		var pieces [][]byte
		if err == nil {
			pieces, err = post.frames(m)
		}
		if err != nil {
			a.cfg.Log.Error().Err(err).Stringer("party", e.To).Stringer("kind", e.Message.Kind()).Msg("a message cannot be made, and its party is let go")
			return nil, err
		}
		if e.Message.Kind() == protocol.KindAnnounce {
			pieces = begun.Rest(protocol.KindAnnounce, pieces)
		}
		return pieces, nil
	})
}

// rest returns the frames of a message that a peer lacks. They are all frames, except of the first broadcast after
// the peer has registered. The caller holds the aggregator's mu.
func (c *conn) rest(kind protocol.Kind, pieces [][]byte) [][]byte {
	if kind != protocol.KindAnnounce && kind != protocol.KindFinal {
		return pieces
	}
	b := c.begun
	c.begun = nil
	return b.Rest(kind, pieces)
}

// frameCache encodes what is sent to many: a message for all is encoded once, and so is the
// plan that all are announced, with what each is delivered.
type frameCache struct {
	mu       sync.Mutex
	last     protocol.Message
	pieces   [][]byte
	announce wire.Announcer
}

func (p *frameCache) frames(m protocol.Message) ([][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == p.last {
		return p.pieces, nil
	}
	var pieces [][]byte
	var err error
	if x, ok := m.(*protocol.Announce); ok {
		pieces, err = p.announce.Frames(x)
	} else {
		pieces = make([][]byte, 1)
		pieces[0], err = wire.AppendFrames(nil, m)
	}
	if err == nil {
		p.last, p.pieces = m, pieces
	}
	return pieces, err
}

// aligning are the members of an alignment that have a stream.
type aligning struct {
	mu      sync.Mutex
	members map[align.Seat]*aligner
	ended   *align.Ended // what the server said last, for who comes later
}

type aligner struct {
	link
	hello align.Hello
}

// tell queues a notice for members; it disconnects a member that takes none.
func tell(c *session.Message, members ...*aligner) error {
	b, err := c.Frame()
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.queue.Add(b) != nil {
			m.close()
		}
	}
	return nil
}

func (a *Aggregator) align(s network.Stream, log zerolog.Logger) error {
	place, ok := a.place(s.Conn().RemotePeer())
	if !ok {
		return session.ErrNotEnrolled // revoked since it connected
	}
	seat := align.Server
	switch place.Role {
	case protocol.Server:
	case protocol.Client:
		seat = align.SeatOf(place.Client)
	default:
		return session.ErrRole
	}
	peer.Within(s, peer.RegisterTimeout)
	first, err := session.Hear(s, session.NoticeSize)
	if err != nil {
		return err
	}
	if first.Hello == nil || first.Hello.Seat != seat {
		return session.ErrNotice
	}
	_ = s.SetDeadline(time.Time{}) // a stream that takes none fails when it is used
	m := &aligner{hello: *first.Hello, link: newLink(s, peer.QueueSize)}
	if err = a.seat(m); err != nil {
		return err
	}
	defer locked.Do(&a.aligning.mu, func() {
		if there := a.aligning.members; there[seat] == m {
			delete(there, seat)
		}
	})
	log.Debug().Stringer("place", place).Msg("aligns")
	wrote := m.write(&a.busy)
	defer func() {
		m.close()
		<-wrote
		m.resets.Wait() // before the stream ends, so that its reason arrives
	}()
	for {
		c, err := session.Hear(s, session.AlignSize)
		if err != nil {
			return err
		}
		if err = a.pass(m, c); err != nil {
			return err
		}
	}
}

// seat puts a member's newest stream in the place of an older one, and tells all who is there.
func (a *Aggregator) seat(m *aligner) error {
	list, _, err := a.cfg.Registry.Text()
	if err != nil {
		return err
	}
	x := &a.aligning
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.members[m.hello.Seat]; old != nil {
		why := network.StreamNoError
		if !bytes.Equal(old.hello.Key, m.hello.Key) { // drawn when a process starts
			why = network.StreamSupplanted
			a.cfg.Log.Warn().Int("seat", int(m.hello.Seat)).Msg("another process aligns as this party, whose older process was still connected. If its machine did not just fail, two machines run copies of one state: tell the owner to stop one")
		}
		old.closeWith(why)
	}
	x.members[m.hello.Seat] = m
	if x.ended != nil {
		if err = tell(&session.Message{Ended: x.ended}, m); err != nil {
			return err
		}
	}
	r := &session.Roster{There: len(x.members)}
	if len(x.members) == a.cfg.Registry.Federation().Places()+1 {
		r.List = list
		r.Hellos = lists.Map(slices.Collect(maps.Values(x.members)), func(other *aligner) align.Hello { return other.hello })
		slices.SortFunc(r.Hellos, func(a, b align.Hello) int { return int(a.Seat) - int(b.Seat) })
	}
	return tell(&session.Message{Roster: r}, slices.Collect(maps.Values(x.members))...)
}

func (a *Aggregator) pass(from *aligner, c *session.Message) error {
	x := &a.aligning
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case c.Envelope != nil && c.Envelope.From == from.hello.Seat && len(c.Envelope.Sealed) <= align.MaxSealed:
		if to := x.members[c.Envelope.To]; to != nil {
			return tell(c, to)
		}
		return nil
	case c.Ended != nil && from.hello.Seat == align.Server:
		x.ended = c.Ended
		return tell(c, slices.Collect(maps.Values(x.members))...)
	default:
		return fmt.Errorf("%w: not what a member of an alignment says", session.ErrNotice)
	}
}
