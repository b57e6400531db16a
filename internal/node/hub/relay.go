// Package hub runs the aggregator's process, which all other parties dial, and a relay's process, which
// stands between the aggregator and some clients. Package node has the parties that dial, and gives the order of messages.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/relay"
)

// RelayConfig configures a relay.
type RelayConfig struct {
	Identity   admission.PrivateKey // one of AggregatorConfig.Relays
	Federation *admission.Federation
	Aggregator admission.Contact
	Listen     []string // multiaddresses, for clients
	Log        zerolog.Logger
	Observer   session.Observer // nil: none
	// Transports replace TCP and QUIC in both hosts if there are any.
	Transports []libp2p.Option
}

// Relay is a relay's process. Enrolled clients register with it as they would with the aggregator,
// and it adds up their vectors. It dials the aggregator, and learns there who is enrolled and what
// the session is. It keeps nothing on disk: a relay that is started again is a new relay.
type Relay struct {
	hub  *Aggregator // faces clients
	link *peer.Conn
}

// upstream is a relay's connection to the aggregator.
type upstream struct {
	presence chan struct{}             // has a token when clients came or went
	lost     atomic.Pointer[time.Time] // when the connection was lost; nil while it stands
}

// patience is for how long clients stay with a relay that has lost the aggregator: it dials at least
// as often.
const patience = peer.RedialMax + peer.DialTimeout

// errCutOff: the relay has no connection to the aggregator, so that clients had better dial another.
var errCutOff = errors.New("node: the relay has lost the aggregator")

// NewRelay starts a relay, which listens at once, and dials when it runs.
func NewRelay(ctx context.Context, cfg RelayConfig) (*Relay, error) {
	registry, err := admission.OpenRegistry(cfg.Federation, store.NewMemoryLog())
	if err != nil {
		return nil, err
	}
	r := new(Relay)
	if r.link, err = peer.NewConn(cfg.Identity, []admission.Contact{cfg.Aggregator}, peer.RelayID, cfg.Log, cfg.Transports...); err != nil {
		return nil, err
	}
	r.link.Waits = session.Observing(cfg.Observer).Waits
	r.hub, err = newAggregator(ctx, AggregatorConfig{Identity: cfg.Identity, Federation: cfg.Federation, Registry: registry, Listen: cfg.Listen,
		Log: cfg.Log, Workers: 1, Observer: cfg.Observer, Transports: cfg.Transports}, &upstream{presence: make(chan struct{}, 1)})
	if err != nil {
		return nil, err
	}
	r.lose() // until Run has a connection
	r.hub.host.SetStreamHandler(peer.ProtocolID, func(s network.Stream) { r.hub.handle(s, r.hub.serve) })
	return r, nil
}

// Addresses are where clients can dial the relay, peer ID included.
func (r *Relay) Addresses() []string { return r.hub.Addresses() }

// RunAndDrain is Run, but when the context ends a round that clients pay for is first added up to its end, if that takes no
// longer than a few seconds.
func (r *Relay) RunAndDrain(ctx context.Context) error {
	longer, stop := session.Outlive(ctx, r.hub.Drain)
	defer stop()
	return r.Run(longer)
}

// Close ends every connection.
func (r *Relay) Close() error { return r.hub.Close() }

// Check says that the relay has no connection to the aggregator, if so.
func (r *Relay) Check() error {
	if r.hub.above.lost.Load() == nil {
		return nil
	}
	return errCutOff
}

// Run holds the connection to the aggregator until the context ends. Without it, clients are sent away
// after a while, to another relay.
func (r *Relay) Run(ctx context.Context) error {
	return r.link.Keep(ctx, func(ctx context.Context, st network.Stream) error {
		defer r.lose()
		return r.serve(ctx, st)
	})
}

// sendAway closes the connections of all clients, if the aggregator has been away for too long.
func (r *Relay) sendAway() {
	if !r.hub.above.cutOff(r.hub.now()) {
		return
	}
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	for _, c := range r.hub.conns {
		c.close()
	}
}

// serve registers with the aggregator, hears of the session, and carries messages.
func (r *Relay) serve(ctx context.Context, st network.Stream) error {
	w, err := session.Greet(st, r.hub.cfg.Registry, session.Register{Version: peer.RelayID, Life: r.hub.life, At: r.hub.now()})
	if err != nil {
		return err
	}
	if err = r.learn(w); err != nil {
		return err
	}
	r.hub.above.lost.Store(nil)
	r.hub.cfg.Observer.Waits("")
	r.hub.cfg.Log.Info().Msg("registered with the aggregator")
	described, err := r.gather(ctx, st)
	if err != nil {
		return err
	}
	s, queue, anew, err := r.follow(described)
	if err != nil {
		return err
	}
	defer locked.Do(&r.hub.mu, func() {
		if s.up == queue {
			s.up = nil
		}
	})
	presences := 0
	if anew {
		// It returns when the clients that were here have looked the session over, or after as long as a stage may take.
		if !r.hub.awaitAcceptance(s, ctx.Done()) {
			return cmp.Or(ctx.Err(), fmt.Errorf("%w: it is over here", session.ErrSession))
		}
		s.driver.Give(s.ctx, protocol.Tick{}) // once the role has taken it, what it was given before is queued
		presences = queue.Length()
	} else {
		s.driver.Give(s.ctx, protocol.Start{})
	}
	r.hub.mu.Lock()
	without, seen := r.hub.declinedIn(s), []int64(nil)
	for _, c := range r.hub.conns {
		if len(c.seen) > 0 && len(seen) < mostSizes && !slices.Contains(seen, c.seen[0]) {
			seen = append(seen, c.seen[0])
		}
	}
	r.hub.mu.Unlock()
	peer.Within(st, peer.RegisterTimeout)
	if err = session.Say(st, &session.Message{Ready: &session.Ready{Presences: presences, Declined: without, Seen: seen}}); err != nil {
		return err
	}
	err = session.Carry(ctx, st, queue, s.terms.Limits(protocol.Aggregator, protocol.Relay), nil, func(m protocol.Message) error {
		if f, ok := m.(*protocol.Final); ok {
			frames, failed := wire.AppendFrames(nil, f)
			if failed != nil {
				return failed
			}
			locked.Do(&r.hub.mu, func() { s.final = frames }) // for clients that come later
		}
		if m.Kind() == protocol.KindAnnounce || m.Kind() == protocol.KindFinal {
			r.hub.paid.Set(false)
		}
		s.driver.Give(s.ctx, protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, To: protocol.Party{Role: protocol.Relay}, Message: m}})
		if m.Kind() == protocol.KindFinal {
			return errOverHere
		}
		return nil
	})
	if errors.Is(err, errOverHere) {
		return nil // it registers again, and counts who waits for the next session
	}
	return peer.IgnoreEOF(err)
}

var errOverHere = errors.New("node: the session has ended")

// gather tells the aggregator how many clients are here until it tells of a session.
func (r *Relay) gather(ctx context.Context, st network.Stream) (*session.Signed, error) {
	_ = st.SetDeadline(time.Time{}) // until there is a session
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	notices := session.Notices(ctx, st, session.DescriptorSize)
	for {
		if err := session.Say(st, &session.Message{Gathered: &session.Gathered{Connected: r.hub.connected(), Enrolled: r.hub.cfg.Registry.Enrolled()}}); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.hub.above.presence:
		case n := <-notices:
			switch err := n.Err; {
			case err != nil:
				return nil, err
			case n.Message.Welcome != nil:
				if err = r.learn(n.Message.Welcome); err != nil {
					return nil, err
				}
			case n.Message.Session == nil:
				return nil, session.ErrNotice
			case !r.past(n.Message.Session):
				return n.Message.Session, nil
			default:
				if err = session.Say(st, &session.Message{Wait: &session.Wait{}}); err != nil {
					return nil, err
				}
				notices = session.Notices(ctx, st, session.DescriptorSize)
			}
		}
	}
}

// learn takes in who is enrolled, and the heads of their ledgers.
func (r *Relay) learn(w *session.Welcome) error {
	if err := r.hub.heads.Take(w.Heads); err != nil {
		return fmt.Errorf("%w: %w", session.ErrNotice, err)
	}
	if w.List == nil {
		return nil // it is known
	}
	_, out, err := r.hub.cfg.Registry.Take(w.List)
	if err != nil {
		return err
	}
	r.hub.disconnect(out, "revoked")
	r.hub.relist()
	return nil
}

// past says whether a session has ended and the relay has its end.
func (r *Relay) past(p *session.Signed) bool {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	s := r.hub.session
	return p.Ended && s != nil && s.final != nil && string(s.signed.Descriptor) == string(p.Descriptor)
}

// follow takes the description of a session, which the server has signed. The queue has what its role says to the aggregator
// from now on. anew is false if clients are in that session already.
func (r *Relay) follow(p *session.Signed) (s *hubSession, queue *peer.Queue, anew bool, err error) {
	list := r.hub.cfg.Registry.List()
	key, ok := list.Holder(admission.ServerPlace)
	if !ok {
		return nil, nil, false, fmt.Errorf("%w: no party on the list is the server", session.ErrSession)
	}
	d, err := p.Verify(r.hub.cfg.Registry.Federation(), key)
	if err != nil {
		return nil, nil, false, err
	}
	a := r.hub
	a.mu.Lock()
	defer a.mu.Unlock()
	queue = peer.NewQueue(relayQueueSize)
	old := a.session
	if old != nil && string(old.signed.Descriptor) == string(p.Descriptor) {
		old.over, old.up = p.Ended, queue
		return old, queue, false, nil
	}
	if old != nil {
		old.stop()
	}
	s = a.newSession(p, d, key, new(exclusions))
	s.over, s.up = p.Ended, queue
	a.drive(s, list, relay.New(relay.Config{Clients: s.terms.Cohort.All(), Rounds: s.terms.Steps.Rounds()})) // which adds up
	a.begin(s)
	a.cfg.Log.Info().Hex("session", d.Terms.Session[:]).Msg("there is a session")
	return s, queue, true, nil
}

// sendUp queues what a session's role says to the aggregator; without a connection it is lost. The
// caller holds the hub's mu.
func (s *hubSession) sendUp(m protocol.Message) error {
	if p, ok := m.(*protocol.RelayStatus); ok && p.Connected {
		p.Incarnation = s.lives[p.Client]
	}
	b, err := wire.AppendFrames(nil, m)
	if err != nil || s.up == nil {
		return err
	}
	return s.up.Add(b)
}

// lose notes since when the connection is lost. Clients are sent away if that lasts.
func (r *Relay) lose() {
	now := r.hub.now()
	r.hub.above.lost.CompareAndSwap(nil, &now)
	time.AfterFunc(patience+time.Second, r.sendAway)
}

// cutOff says whether the connection has been lost for long; never for an aggregator.
func (u *upstream) cutOff(now time.Time) bool {
	if u == nil {
		return false
	}
	lost := u.lost.Load()
	return lost != nil && now.Sub(*lost) > patience
}
