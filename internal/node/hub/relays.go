package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"golang.org/x/time/rate"

	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// relayLinks are an aggregator's relays. Each stream of one has a number of its own: what the
// relay held when a stream broke does not come over the next.
type relayLinks struct {
	known map[peer.ID]bool
	last  protocol.ClientID // the number of the newest; the aggregator's mu is for it
	// learned is closed and made anew when a relay says what it knows; the aggregator's mu is for it.
	learned chan struct{}
}

// relayQueueSize is the number of bytes that may wait for a relay, which has messages for many
// clients.
const relayQueueSize = 4 * peer.QueueSize

// relayPatience is the time for which an enrolment waits until relays that wait for a session know of it.
const relayPatience = 2 * time.Second

// awaitRelays returns when the relays that wait for a session know of so many parties, since clients that have enrolled
// dial them at once, or after relayPatience.
func (a *Aggregator) awaitRelays(enrolled int) {
	late := time.After(relayPatience)
	for {
		a.mu.Lock()
		behind := false
		for _, c := range a.conns {
			behind = behind || c.place.Role == protocol.Relay && c.enrolled > 0 && c.enrolled < enrolled
		}
		learned := a.relays.learned
		a.mu.Unlock()
		if !behind {
			return
		}
		select {
		case <-learned:
		case <-late:
			return
		case <-a.ctx.Done():
			return
		}
	}
}

// behind notes how many clients are connected to a relay, and how many parties the relay knows; 0 of a relay in a session.
func (a *Aggregator) behind(c *conn, n, enrolled int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.enrolled = enrolled
	close(a.relays.learned)
	a.relays.learned = make(chan struct{})
	c.behind = max(0, min(n, a.cfg.Registry.Federation().Places()))
	a.announcePresence()
}

// serveRelay has a relay take part in a session, and reads and writes its messages until its stream ends. Then its clients are
// gone, and so are the vectors that it holds. The session begins when the first presences are
// known.
func (a *Aggregator) serveRelay(c *conn) error {
	s, ready, err := a.agree(c)
	if err != nil || s == nil {
		return err
	}
	a.behind(c, 0, 0) // from here on each is in its place
	a.mu.Lock()
	if s != a.session || a.conns[c.place] != c {
		a.mu.Unlock()
		return nil // overtaken
	}
	presences := ready.Presences
	s.behind[c], c.seen = ready.Declined.Within(a.cfg.Registry.Federation().Places()), ready.Seen
	a.hopeless(s)
	if s.final != nil {
		_ = c.queue.Add(s.final)
	}
	if presences == 0 {
		s.answered(c)
	}
	a.mu.Unlock()
	defer a.without(c, s)
	_ = c.stream.SetDeadline(time.Time{})
	c.write(&a.busy)
	defer c.close()
	r := wire.NewReader(c.stream, s.terms.Limits(protocol.Relay, protocol.Aggregator))
	for {
		m, err := r.Read()
		if err != nil {
			return peer.IgnoreEOF(err)
		}
		if f, forwarded := m.(*protocol.Forward); forwarded {
			a.heard(admission.ClientPlace(f.Client), f.Message)
		}
		p, ok := m.(*protocol.RelayStatus)
		if !ok {
			s.driver.Give(s.ctx, protocol.Received{Envelope: protocol.Envelope{From: protocol.Party(c.place), To: protocol.Party{Role: protocol.Aggregator}, Message: m}})
			continue
		}
		a.present(c, s, p)
		if presences--; presences == 0 {
			locked.Do(&a.mu, func() { s.answered(c) })
		}
	}
}

// present notes that a client has registered with a relay, or left it.
func (a *Aggregator) present(c *conn, s *hubSession, p *protocol.RelayStatus) {
	place := admission.ClientPlace(p.Client)
	if _, enrolled := a.cfg.Registry.Holder(place); !enrolled {
		return
	}
	a.mu.Lock()
	old := a.conns[place]
	if s != a.session || a.conns[c.place] != c || !p.Connected && (old == nil || old.via != c) {
		a.mu.Unlock()
		return // overtaken
	}
	if !p.Connected {
		a.mu.Unlock()
		a.left(old, s)
		return
	}
	a.newest++
	now := &conn{place: place, life: p.Incarnation, number: a.newest, link: link{closed: make(chan struct{})}, in: s, via: c}
	if old != nil {
		a.supplant(old, now)
	}
	a.conns[place] = now
	fresh := s.lives[p.Client] != p.Incarnation
	s.lives[p.Client] = p.Incarnation
	a.announcePresence()
	a.mu.Unlock()
	if old == nil || old.via == nil {
		a.cfg.Observer.Registered(1)
	}
	if fresh {
		s.driver.Give(s.ctx, protocol.Registered{Client: p.Client})
	}
	s.driver.Give(s.ctx, protocol.Connected{Client: p.Client, Connection: now.number, Relayed: true})
}

// left lets go of a client that was connected to a relay, unless it is elsewhere by now.
func (a *Aggregator) left(c *conn, s *hubSession) {
	a.mu.Lock()
	gone := a.conns[c.place] == c
	if gone {
		delete(a.conns, c.place)
		a.announcePresence()
	}
	c.close()
	a.mu.Unlock()
	if gone {
		a.cfg.Observer.Registered(-1)
		s.driver.Give(s.ctx, protocol.Disconnected{Client: c.place.Client, Connection: c.number})
	}
}

// without continues without a relay. It first drops the vectors that the relay held, since its
// clients may be back by then.
func (a *Aggregator) without(c *conn, s *hubSession) {
	s.driver.Give(s.ctx, protocol.RelayLost{Number: int(c.place.Client)})
	a.mu.Lock()
	behind := slices.DeleteFunc(slices.Collect(maps.Values(a.conns)), func(x *conn) bool { return x.via != c })
	a.mu.Unlock()
	for _, x := range behind {
		a.left(x, s)
	}
}

// through is the relay that a client is connected to. The caller holds mu.
func (a *Aggregator) through(id protocol.ClientID) (protocol.Party, bool) {
	c := a.conns[admission.ClientPlace(id)]
	if c == nil || c.via == nil {
		return protocol.Party{}, false
	}
	return protocol.Party(c.via.place), true
}

// tellRelays gives the end of a session to relays without a client in it, since the role sends
// these nothing. Clients may still register with them, for that end or for the next session. The
// caller holds mu.
func (a *Aggregator) tellRelays(s *hubSession) {
	serve := make(map[*conn]bool)
	for _, c := range a.conns {
		serve[c.via] = true
	}
	for _, c := range a.conns {
		if c.place.Role == protocol.Relay && c.in == s && !serve[c] {
			_ = c.queue.Add(s.final) // a relay whose queue is full is disconnected
		}
	}
}

// link is a peer's stream, and what waits to be written to it.
type link struct {
	stream network.Stream // nil: the peer is connected to a relay
	queue  *peer.Queue
	closed chan struct{}
	once   sync.Once
	resets sync.WaitGroup
}

func newLink(s network.Stream, size int) link {
	return link{stream: s, queue: peer.NewQueue(size), closed: make(chan struct{})}
}

// write writes beside what is queued. It returns a channel that is closed when nothing is written any more.
func (l *link) write(busy *sync.WaitGroup) (wrote chan struct{}) {
	wrote = make(chan struct{})
	busy.Go(func() {
		defer close(wrote)
		if l.queue.Write(l.stream, l.closed) != nil {
			l.close()
		}
	})
	return wrote
}

func (l *link) close() { l.closeWith(network.StreamNoError) }

// closeWith closes the link and tells the peer a reason. It does not wait for the peer: a reset stands behind what a
// peer that reads nothing has not taken, and the caller may hold mu.
func (l *link) closeWith(why network.StreamErrorCode) {
	l.once.Do(func() {
		close(l.closed)
		if l.stream != nil {
			l.resets.Go(func() { _ = l.stream.ResetWithError(why) }) // the stream's reader and writer end with it
		}
	})
}

// streamLimiter bounds how often a peer opens a stream: enrolling has signatures verified, and
// registering may be answered with the whole list. It has at most one entry for each enrolled or
// invited peer, since no other peer gets as far.
type streamLimiter struct{ limits sync.Map } // a *rate.Limiter by peer.ID

// How often a peer may open a stream; a peer pauses longer once it has failed some times.
const (
	streamsPerSecond = 1
	streamsAtOnce    = 8
)

// wait returns when it is a peer's turn, or with an error when the context ends.
func (v *streamLimiter) wait(ctx context.Context, id peer.ID) error {
	l, _ := v.limits.LoadOrStore(id, rate.NewLimiter(streamsPerSecond, streamsAtOnce))
	return l.(*rate.Limiter).Wait(ctx)
}

// mostSizes limits the sizes of the log that one receipt proves growth from.
const mostSizes = 64

// survivors states how many clients were in each round's sum, as runs of rounds.
func (s *hubSession) survivors() (runs [][2]int) {
	for round := range uint64(s.terms.Steps.Rounds()) {
		n := s.sums[round+1]
		if s.first == 0 || round+1 < s.first {
			n = -1 // another process knew
		}
		if k := len(runs) - 1; k >= 0 && runs[k][1] == n {
			runs[k][0]++
		} else {
			runs = append(runs, [2]int{1, n})
		}
	}
	return runs
}

// prove puts the receipt of a session that the log ends with into its final message, and returns that in frames. The caller holds mu.
func (a *Aggregator) prove(s *hubSession, f *protocol.Final) ([]byte, error) {
	if a.log == nil {
		return wire.AppendFrames(nil, f)
	}
	if _, last := a.log.Last(); last == nil || last.Session != sessionName(s.terms.Session) {
		return nil, fmt.Errorf("%w: it does not end with the session %x", store.ErrLog, s.terms.Session)
	}
	slices.Sort(s.sizes)
	s.sizes = slices.Compact(s.sizes)
	s.sizes = s.sizes[max(0, len(s.sizes)-mostSizes):]
	r, err := a.log.Receipt(s.sizes...)
	if err == nil {
		f.Receipt, err = json.Marshal(r)
	}
	if err != nil {
		return nil, err
	}
	return wire.AppendFrames(nil, f)
}

// proveTo has the end of a session prove that the log has grown from what a client has seen that came late. The caller holds mu.
func (a *Aggregator) proveTo(c *conn, s *hubSession) {
	if a.log == nil || !slices.ContainsFunc(c.seen, func(n int64) bool { return n > 0 && !slices.Contains(s.sizes, n) }) {
		return
	}
	e, err := openEnd(a.endPath(), a.cfg.Registry.Federation(), a.cfg.Registry.List())
	if err == nil {
		s.sizes = append(s.sizes, c.seen...)
		s.final, err = a.prove(s, e.final)
	}
	if err != nil {
		a.cfg.Log.Error().Err(err).Stringer("place", c.place).Msg("the log of sessions is not proved to a client that came late")
	}
}
