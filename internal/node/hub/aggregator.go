package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// AggregatorConfig configures an aggregator.
type AggregatorConfig struct {
	Identity   admission.PrivateKey
	Federation *admission.Federation
	Registry   *admission.Registry
	Listen     []string // multiaddresses; see Listen
	// State is a folder where the end of a session is kept for clients that come later. The shares of very many clients
	// wait there, too.
	State string
	// SharesInMemory is the number of bytes of a round's shares up to which they stay in memory. 0: secagg.SharesInMemory.
	SharesInMemory int64
	Log            zerolog.Logger
	Workers        protocol.Workers
	Observer       session.Observer // nil: none
	// Relays are the keys of the relays that may stand between the aggregator and clients (Relay).
	// They are trusted to follow the protocol, as the aggregator is; sessions in active mode are
	// refused with them.
	Relays []admission.PublicKey
	// Transports replace TCP and QUIC if there are any.
	Transports []libp2p.Option
	// Now is the machine's clock; nil: time.Now.
	Now func() time.Time
}

// Aggregator is the aggregator's process: it lets invited parties enrol and enrolled ones
// register, and runs the sums of the session that the server describes. It is also the part of
// a Relay that faces clients.
type Aggregator struct {
	cfg      AggregatorConfig
	relays   relayLinks
	above    *upstream // of a relay: its connection to the aggregator; else nil
	heads    *store.Heads
	log      *store.SessionLog // nil: a relay's
	spools   *store.Spools
	host     host.Host
	invited  atomic.Pointer[map[peer.ID]admission.Ticket] // the tickets that it was told of, by the peer that is known by a ticket's key
	streams  streamLimiter
	aligning aligning
	life     [16]byte
	paid     session.Paid     // a round
	now      func() time.Time // the machine's clock
	ctx      context.Context
	stop     context.CancelFunc
	busy     sync.WaitGroup

	mu      sync.Mutex
	conns   map[admission.Place]*conn
	newest  uint64                                   // the number of the newest connection
	session *hubSession                              // nil before the server has published one
	ended   map[admission.PublicKey][]session.Latest // sessions that a server has signed the end of, as clients have shown
	growing *admission.Federation                    // in epochs that wait for the end of the session; nil: none do
	founded int                                      // places at the start
}

type hubSession struct {
	signed *session.Signed
	server admission.PublicKey       // who signed it
	shown  [2]func() ([]byte, error) // what clients are told of it, in a frame: while it runs, and once it has ended
	list   admission.Hash            // of who can be in it
	terms  session.Terms
	// excluded are the clients that lied in it.
	excluded *exclusions

	driver   *session.Driver
	ctx      context.Context // the driver's
	stop     context.CancelFunc
	lives    map[protocol.ClientID][16]byte        // with which a client last took part
	asked    map[*conn]bool                        // clients of its beginning that are still looking it over
	looked   chan struct{}                         // closed when none of them is asked any more, or it has taken too long
	told     [][]byte                              // what the server was told last, in frames: it may not have arrived
	final    []byte                                // the end, in frames, for who comes later; nil before
	declined map[protocol.ClientID]session.Decline // clients that decline it
	behind   map[*conn]session.Declined            // likewise, behind relays
	hopeless bool                                  // the server's connection was closed for it to hear that too many decline
	opened   uint64                                // the last round that the server has opened
	first    uint64                                // the first round that it has opened since this process began; 0: none
	sums     map[uint64]int                        // survivors of each round since then that released a sum
	leaf     *protocol.Leaf                        // of its beginning, in the log of sessions
	sizes    []int64                               // of the log, that the receipt proves growth from
	over     bool                                  // of a relay: the aggregator says that nothing is left but the end
	up       *peer.Queue                           // of a relay: what waits for the aggregator; nil: there is no connection
}

type conn struct {
	link
	place    admission.Place
	peer     peer.ID
	key      admission.PublicKey // of the peer
	life     [16]byte
	number   uint64           // of the connection, in the order in which they came about, from 1
	session  chan *hubSession // the session, for a client that waits for one
	presence chan struct{}    // has a token when clients came or went, for the server
	shown    admission.Hash   // of the text of the list that the peer has
	has      *admission.List  // of a server or relay: the list that it was shown over this stream; nil: none
	newer    []byte           // the head of a client's ledger that the client is shown; nil: none
	seen     []int64          // sizes of the log of sessions that the peer, or of a relay the clients behind it, have seen
	// in is the session that the peer takes part in, or was told of and is checking:
	// what is said to it meanwhile waits in the queue.
	in *hubSession
	// begun names the bytes of the latest broadcast that the client has already; nil: none, or another was sent since.
	begun *session.Begun
	// via is the relay that a client is connected to: it has no stream or queue of its own
	// here. nil: none.
	via *conn
	// Of a relay, before the session: the number of clients that are connected to it, and of parties that it knows, itself at first.
	behind, enrolled int
}

// NewAggregator starts an aggregator, which listens at once.
func NewAggregator(ctx context.Context, cfg AggregatorConfig) (*Aggregator, error) {
	a, err := newAggregator(ctx, cfg, nil)
	if err != nil {
		return nil, err
	}
	if a.log, err = store.OpenSessionLog(cfg.State, cfg.Federation.Hash(), cfg.Identity); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.loadEnd()
	a.host.SetStreamHandler(peer.ProtocolID, func(s network.Stream) { a.handle(s, a.serve) })
	a.host.SetStreamHandler(peer.ClockID, func(s network.Stream) { peer.TellTime(s, a.now()) })
	a.host.SetStreamHandler(peer.EnrolID, func(s network.Stream) { a.handle(s, a.enrol) })
	a.host.SetStreamHandler(peer.AlignID, func(s network.Stream) { a.handle(s, a.align) })
	a.host.SetStreamHandler(peer.RelayID, func(s network.Stream) { a.handle(s, a.serve) })
	return a, nil
}

// newAggregator makes an aggregator, or with a connection above a relay's part, that serves no peer yet.
func newAggregator(ctx context.Context, cfg AggregatorConfig, above *upstream) (*Aggregator, error) {
	cfg.Observer = session.Observing(cfg.Observer)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Aggregator{cfg: cfg, above: above, life: session.NewLife(), relays: relayLinks{known: make(map[peer.ID]bool), learned: make(chan struct{})},
		conns: make(map[admission.Place]*conn), ended: make(map[admission.PublicKey][]session.Latest), now: cfg.Now,
		aligning: aligning{members: make(map[align.Seat]*aligner)}, founded: cfg.Registry.Federation().Places()}
	var err error
	for _, k := range cfg.Relays {
		id, wrong := peer.IDOf(k.Ed25519())
		if wrong != nil {
			return nil, fmt.Errorf("the relay %s: %w", k, wrong)
		}
		a.relays.known[id] = true
	}
	if a.heads = store.NewHeads(); cfg.State != "" {
		if a.heads, err = store.OpenHeads(filepath.Join(cfg.State, headsFile)); err != nil {
			return nil, err
		}
		if a.spools, err = store.OpenSpools(cfg.State); err != nil {
			return nil, errors.Join(err, a.heads.Close())
		}
	}
	peers := cfg.Registry.Federation().Places() + 1 + len(cfg.Relays)
	if a.host, err = peer.NewHub(cfg.Identity.Ed25519(), cfg.Listen, peers, a.gate(), cfg.Transports...); err != nil {
		return nil, errors.Join(err, a.heads.Close())
	}
	a.ctx, a.stop = context.WithCancel(ctx)
	a.host.Network().Notify(&network.NotifyBundle{DisconnectedF: a.disconnected})
	return a, nil
}

// Host returns the aggregator's host, which counts connections.
func (a *Aggregator) Host() host.Host { return a.host }

// Addresses are where the aggregator can be dialled, peer ID included.
func (a *Aggregator) Addresses() []string {
	return lists.Map(a.host.Addrs(), func(at multiaddr.Multiaddr) string { return fmt.Sprintf("%s/p2p/%s", at, a.host.ID()) })
}

// Drain returns when no round is under way that clients pay for, or after a few seconds. Close then costs no client a round.
func (a *Aggregator) Drain() { a.paid.Await() }

// Close ends the session, and every connection.
func (a *Aggregator) Close() error {
	a.stop()
	a.mu.Lock()
	for _, c := range a.conns {
		c.close()
	}
	a.mu.Unlock()
	err := a.host.Close()
	a.busy.Wait()
	return errors.Join(err, a.heads.Close())
}

// admits says whether a peer may connect: who is enrolled, and who holds a ticket.
func (a *Aggregator) admits(id peer.ID) bool {
	if _, ok := a.place(id); ok || a.relays.known[id] {
		return true
	}
	_, ok := a.ticket(id)
	return ok
}

func (a *Aggregator) place(id peer.ID) (admission.Place, bool) {
	key, err := peer.KeyOf(id)
	if err != nil {
		return admission.Place{}, false
	}
	return a.cfg.Registry.Lookup(key)
}

// Revoke applies the operator's newest revocations, and closes the connections of revoked
// parties, even if the revocations cannot be written to disk. Older ones than are known
// are refused, see admission.Registry.
func (a *Aggregator) Revoke(v *admission.Revocations) error {
	out, err := a.cfg.Registry.Revoke(v)
	a.disconnect(out, "revoked")
	a.relist()
	return err
}

// disconnect closes the connections of parties that are out. The gate does not let them in again.
func (a *Aggregator) disconnect(out []*admission.Enrolment, why string) {
	for _, e := range out {
		a.cfg.Log.Warn().Stringer("place", e.Ticket.Place).Msg(why)
		if id, err := peer.IDOf(e.Identity.Ed25519()); err == nil {
			_ = a.host.Network().ClosePeer(id)
		}
	}
}

// disconnected lets go of a peer that waits for a session, and so would not be missed.
func (a *Aggregator) disconnected(_ network.Network, gone network.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		if c.stream != nil && c.stream.Conn() == gone {
			c.close()
		}
	}
}

// handle has a stream served, and sees to its end.
func (a *Aggregator) handle(s network.Stream, serve func(network.Stream, zerolog.Logger) error) {
	a.busy.Add(1)
	defer a.busy.Done()
	s = peer.Steady(s)
	id := s.Conn().RemotePeer()
	log := a.cfg.Log.With().Stringer("peer", id).Logger()
	end := s.Reset
	defer func() {
		if r := recover(); r != nil {
			log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Msg("a stream's handler failed")
		}
		_ = end()
	}()
	if a.streams.wait(a.ctx, id) != nil {
		return // the aggregator closes
	}
	err := serve(s, log)
	if errors.Is(err, peer.ErrEnd) {
		end, err = s.Close, nil
	}
	if err != nil && a.ctx.Err() == nil {
		level := zerolog.InfoLevel
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, network.ErrReset):
			level = zerolog.DebugLevel // the peer has left, as it may at any time
		case errors.Is(err, admission.ErrUnwritten):
			level = zerolog.ErrorLevel // the aggregator's own trouble
		}
		log.WithLevel(level).Err(err).Msg("stream ended")
	}
}

// serve registers a peer by the protocol of its stream, and carries its messages.
func (a *Aggregator) serve(s network.Stream, log zerolog.Logger) error {
	id, speaks, size := s.Conn().RemotePeer(), string(s.Protocol()), peer.QueueSize
	place, ok := a.place(id)
	switch {
	case speaks == peer.RelayID:
		place, size = admission.Place{Role: protocol.Relay}, relayQueueSize
	case !ok:
		return session.ErrNotEnrolled // revoked since it connected
	case place == admission.AggregatorPlace || place == admission.ServerPlace && a.above != nil:
		return session.ErrRole // an aggregator dials no peer, and the server no relay
	case a.above.cutOff(a.now()):
		return errCutOff
	}
	peer.Within(s, peer.RegisterTimeout)
	m, err := session.Hear(s, session.NoticeSize)
	if err != nil {
		return err
	}
	if speaks == peer.RelayID && !a.relays.known[id] { // an enrolled or invited peer
		return session.Conclude(s, &session.Message{Refused: "the key is not of a relay: the aggregator names relays with --relay, and a party's own key cannot be one"})
	}
	if m.Register == nil || m.Register.Version != speaks {
		return session.Conclude(s, &session.Message{Refused: "this aggregator speaks " + speaks, ForGood: true})
	}
	key, _ := peer.KeyOf(id) // it was looked up
	c := &conn{place: place, peer: id, key: key, life: m.Register.Life, shown: m.Register.List, seen: []int64{m.Register.Seen}, enrolled: 1,
		link: newLink(s, size), session: make(chan *hubSession, 1), presence: make(chan struct{}, 1)}
	if place.Role == protocol.Client && m.Register.Head != nil {
		var stale bool
		if c.newer, stale, err = a.compare(key, m.Register.Head); err != nil {
			return errors.Join(err, session.Conclude(s, &session.Message{Refused: err.Error()}))
		}
		if stale {
			return a.turnBack(c)
		}
	}
	if by := m.Register.At.Sub(a.now()); !m.Register.At.IsZero() && by.Abs() >= session.ClockApart {
		log.Warn().Stringer("place", place).Str("its_clock", session.Ahead(by, "this machine's")).Msg("the clock of a party or of this machine is wrong; have both set by NTP")
	}
	if place == admission.ServerPlace {
		if second, failed := a.refuseSecond(c); second {
			return failed
		}
	}
	a.showEnd(m.Register.End)
	if size, _ := a.log.Last(); a.log != nil && m.Register.Seen > size {
		log.Error().Stringer("place", place).Int64("seen", m.Register.Seen).Int64("entries", size).
			Msg("the log of sessions is shorter than a party has seen it, and the party refuses it: put the newest copy of the folder log back")
	}
	a.enter(c)
	defer a.leave(c)
	log.Info().Stringer("place", c.place).Msg("has come")
	defer log.Info().Stringer("place", c.place).Msg("has gone")
	if err = a.welcome(c); err != nil {
		return err
	}
	switch place.Role {
	case protocol.Server:
		return a.serveServer(c)
	case protocol.Relay:
		return a.serveRelay(c)
	default:
		return a.serveClient(c)
	}
}

// enter puts a peer's newest connection in the place of an older one. A client or relay is in the session that it is shown from
// then on, so that it is not counted as waiting before it has heard of a session's end. A relay's stream gets a number.
func (a *Aggregator) enter(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.showing(); c.place.Role != protocol.Server && !s.beyond(c) {
		c.in = s
	}
	if c.place.Role == protocol.Relay {
		a.relays.last++
		c.place = admission.Place(protocol.RelayParty(int(a.relays.last)))
		for _, old := range a.conns {
			if old.place.Role == protocol.Relay && old.peer == c.peer {
				a.supplant(old, c)
			}
		}
	}
	if old := a.conns[c.place]; old != nil {
		a.supplant(old, c)
		if old.via != nil {
			a.cfg.Observer.Registered(-1) // it was at a relay
		}
	}
	a.conns[c.place] = c
	a.newest++
	c.number = a.newest
	a.host.ConnManager().Protect(c.peer, "registered")
	a.announcePresence()
	if c.place.Role == protocol.Client {
		a.cfg.Observer.Registered(1)
	}
}

// leave lets go of a connection. It returns when the peer's reason is on its way, which the end of the stream would overtake.
func (a *Aggregator) leave(c *conn) {
	defer c.resets.Wait() // without mu
	a.mu.Lock()
	defer a.mu.Unlock()
	c.close()
	if c.place.Role == protocol.Client {
		a.cfg.Observer.Registered(-1)
	}
	if a.conns[c.place] == c {
		if c.place == admission.ServerPlace {
			a.paid.Set(false) // no party waits for the sum here
		}
		delete(a.conns, c.place)
		a.host.ConnManager().Unprotect(c.peer, "registered")
		a.announcePresence()
	}
	c.in.answered(c)
}

// announcePresence lets a server that waits know how many clients there are. The
// caller holds mu.
func (a *Aggregator) announcePresence() {
	if c := a.conns[admission.ServerPlace]; c != nil {
		peer.Wake(c.presence)
	}
	if a.above != nil {
		peer.Wake(a.above.presence)
	}
}

// connected counts the registered clients. It leaves out clients at the end of a session, and
// clients behind a relay at the end: they leave, or wait for the next session and are counted then.
func (a *Aggregator) connected() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for place, c := range a.conns {
		if c.in != nil && c.in.final != nil {
			continue
		}
		if place.Role == protocol.Client {
			n++
		}
		n += c.behind
	}
	return n
}

// Places returns the number of clients' places, the number of enrolled clients, and the names of enrolled clients that are not
// connected. A client behind a relay counts as connected once there is a session.
func (a *Aggregator) Places() (places, enrolled int, missing []string) {
	places = a.cfg.Registry.Federation().Places()
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range protocol.ClientID(places) {
		p := admission.ClientPlace(id)
		if _, ok := a.cfg.Registry.Holder(p); !ok {
			continue
		}
		if enrolled++; a.conns[p] == nil {
			missing = append(missing, p.String())
		}
	}
	return places, enrolled, missing
}

// Listen is where an aggregator listens unless it is told otherwise: on all addresses, over TCP and
// QUIC. On a machine without IPv6 the IPv4 addresses are enough.
var Listen = []string{"/ip4/0.0.0.0/tcp/7946", "/ip4/0.0.0.0/udp/7946/quic-v1", "/ip6/::/tcp/7946", "/ip6/::/udp/7946/quic-v1"}
