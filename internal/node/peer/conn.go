package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2pprotocol "github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/node/admission"
)

// Conn is the network's side of a client, a relay or the server. It holds a connection to the aggregator, or to one of several relays. When
// the connection breaks, Conn opens it again, to the next relay.
type Conn struct {
	identity admission.PrivateKey
	host     host.Host // as long as it keeps the connection
	all      []peer.AddrInfo
	at       int // the present one of all
	protocol libp2pprotocol.ID
	log      zerolog.Logger
	over     []libp2p.Option // in place of the transports
	// Waits is told why there is no connection; "": there is one.
	Waits func(what string)

	mu     sync.Mutex
	stream network.Stream // the stream in use; nil: none
	newest network.Conn   // the newest connection that was made
}

// ErrEnd is returned at the end of the session: the peer does not dial again.
var ErrEnd = errors.New("node: done")

// NewConn makes the connection by which a party speaks a protocol with the first of its contacts that answers. It dials when it is kept.
func NewConn(identity admission.PrivateKey, contacts []admission.Contact, protocol libp2pprotocol.ID, log zerolog.Logger, over ...libp2p.Option) (*Conn, error) {
	l := &Conn{identity: identity, protocol: protocol, log: log, over: over, Waits: func(string) {}}
	for _, c := range contacts {
		info, err := dialled(c)
		if err != nil {
			return nil, err
		}
		l.all = append(l.all, info)
	}
	if len(l.all) == 0 {
		return nil, errors.New("node: there is no peer to dial")
	}
	return l, nil
}

// StartAt has the contact at a place, modulo how many there are, be dialled first.
func (l *Conn) StartAt(place int) { l.at = place % len(l.all) }

// Keep holds the connection: serve has it for as long as it lasts. It returns when serve returns ErrEnd, or the context ends.
func (l *Conn) Keep(ctx context.Context, serve func(context.Context, network.Stream) error) error {
	if err := l.open(); err != nil {
		return err
	}
	defer l.host.Close() //nolint:errcheck // nothing is left to be lost
	var err error
	pause, others := redialMin, 0
	for {
		began := time.Now()
		err = l.once(ctx, serve)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrEnd):
			return nil
		case IsFatal(err):
			return err
		case !otherVersion(err):
			others = 0
		default:
			if others++; others == mostOthers {
				return Fatal(admission.Lasting(fmt.Errorf("%w%s", err, l.reason(err))))
			}
		}
		if time.Since(began) > time.Minute {
			pause = redialMin // it had held
		} else {
			l.StartAt(l.at + 1)
		}
		n, drawn := entropy.Uniform(entropy.System().Stream("node/redial", 0), uint64(pause))
		if drawn != nil {
			return drawn
		}
		wait := pause/2 + time.Duration(n) // so that the clients of a lost aggregator do not all come back at once
		level := zerolog.InfoLevel
		if supplanted(err) {
			level = zerolog.ErrorLevel
		}
		l.log.WithLevel(level).Err(err).Dur("again_in_ms", wait).Msg("no connection to the aggregator" + l.reason(err))
		l.Waits(fmt.Sprintf("no connection to the aggregator%s (%v)", l.reason(err), err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		pause = min(2*pause, RedialMax)
	}
}

// open makes the host that dials.
func (l *Conn) open() (err error) {
	ids := lists.Map(l.all, func(info peer.AddrInfo) peer.ID { return info.ID })
	if l.host, err = newPeerHost(l.identity.Ed25519(), ids, l.over...); err == nil {
		l.host.Network().Notify(&network.NotifyBundle{ConnectedF: l.met})
	}
	return err
}

// Try dials the first contact once, says nothing over the connection, and returns the time at the other end in whole minutes; zero: it does
// not tell. Its error says why there is no connection.
func (l *Conn) Try(ctx context.Context) (at time.Time, err error) {
	if err = l.open(); err != nil {
		return at, err
	}
	defer l.host.Close() //nolint:errcheck // nothing is left to be lost
	err = l.once(ctx, func(ctx context.Context, _ network.Stream) error {
		s, wrong := l.host.NewStream(ctx, l.all[l.at].ID, ClockID)
		if wrong != nil {
			return nil
		}
		Within(s, RegisterTimeout)
		var minutes int64
		if binary.Read(s, binary.BigEndian, &minutes) == nil {
			at = time.Unix(60*minutes, 0)
		}
		return s.Close()
	})
	if err != nil {
		err = fmt.Errorf("%w%s", err, l.reason(err))
	}
	return at, err
}

// TellTime answers a stream of ClockID.
func TellTime(s network.Stream, now time.Time) {
	Within(s, RegisterTimeout)
	if binary.Write(s, binary.BigEndian, now.Unix()/60) == nil {
		_ = s.Close() // the reader has it or asks again
	}
}

// IsFatal says whether dialling again would not help.
func IsFatal(err error) bool {
	_, ok := errors.AsType[*fatalError](err)
	return ok
}

// Fatal marks an error that ends a peer's connection.
func Fatal(err error) error { return &fatalError{err} }

type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

func (l *Conn) once(ctx context.Context, serve func(context.Context, network.Stream) error) error {
	to := l.all[l.at]
	// Its own pauses between dials would come on top of the peer's, and go up to minutes.
	if n, ok := l.host.Network().(interface{ Backoff() *swarm.DialBackoff }); ok {
		n.Backoff().Clear(to.ID)
	}
	dial, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	if err := l.host.Connect(dial, to); err != nil {
		return unmet(err)
	}
	s, err := l.host.NewStream(dial, to.ID, l.protocol)
	if err != nil {
		return l.closedBy(dial, err)
	}
	s = Steady(s)
	ctx, done := context.WithCancel(ctx)
	defer done()
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	defer s.Reset() //nolint:errcheck // a stream that is gone already
	l.on(s)
	defer l.on(nil)
	return serve(ctx, s)
}

func (l *Conn) on(s network.Stream) { locked.Do(&l.mu, func() { l.stream = s }) }

// Cut breaks the stream; another is opened then. After Cut returns, nothing leaves on the old stream.
func (l *Conn) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		_ = l.stream.Reset() // the stream is to end, so an error does not matter
	}
}

// Errors with which the aggregator ends a connection after it has proved its key.
var (
	errTurnedAway = errors.New("turned away")
	errClosed     = errors.New("closed without a reason") // over TCP the reason of errTurnedAway can be lost on the way
)

// errUnmet is the error of a connection that ended before either side proved its key.
var errUnmet = errors.New("closed before the handshake")

// unmet marks the error of a dial that found a listener which closed the connection.
func unmet(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) { // by what was under way just then
		return fmt.Errorf("%w: %w", errUnmet, err)
	}
	return err
}

// supplanted reports whether the aggregator closed a stream in favour of another process of the party.
func supplanted(err error) bool {
	e, ok := errors.AsType[*network.StreamError](err)
	return ok && e.Remote && e.ErrorCode == network.StreamSupplanted
}

// met keeps the newest connection, to ask it later why it ended.
func (l *Conn) met(_ network.Network, c network.Conn) { locked.Do(&l.mu, func() { l.newest = c }) }

// closedBy adds to the error of a stream why the aggregator closed the connection, if it did.
func (l *Conn) closedBy(ctx context.Context, err error) error {
	c := locked.Get(&l.mu, func() network.Conn { return l.newest })
	if c == nil {
		return err
	}
	s, end := c.NewStream(ctx) // of a closed connection, the error of its end
	if end == nil {
		_ = s.Reset()
	}
	switch e, ok := errors.AsType[*network.ConnError](errors.Join(err, end)); {
	case ok && e.Remote && e.ErrorCode == network.ConnGated:
		return fmt.Errorf("%w: %w", errTurnedAway, err)
	case !ok && !c.IsClosed():
		return err
	}
	return fmt.Errorf("%w: %w", errClosed, err)
}

// reason says why there is no connection and what to do, "" where the error alone says it.
func (l *Conn) reason(err error) string {
	timeout, isTimeout := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	switch {
	case supplanted(err):
		return ": another process registered as this party, and the aggregator keeps the newest. If this state was copied to another machine, stop one of the two and delete its copy: " +
			"each copy counts only the ε that it spent itself"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return ": this process has too few file descriptors; raise ulimit -n (LimitNOFILE= in a unit)"
	case err != nil && strings.Contains(err.Error(), "certificate has expired or is not yet valid"): // libp2p hands on the text alone
		return ": the clock of this machine or of the aggregator is wrong by an hour or more, which QUIC does not bear. Set both clocks by NTP, or dial the aggregator over TCP"
	case errors.Is(err, swarm.ErrNoGoodAddresses):
		return ": the name in its address leads nowhere: this machine's DNS does not know it, or the address is wrong (--aggregator gives another)"
	case otherVersion(err):
		return fmt.Sprintf(": it answers and does not speak %s: it runs another version of this program; take the same one", l.protocol)
	case errors.Is(err, errTurnedAway):
		return l.unknown()
	case errors.Is(err, errClosed):
		return ": it answers and closes the connection without a reason: it has no room for another connection of this party, it does not know this party, or it is stopping. Its log says which"
	case errors.Is(err, errUnmet):
		return ": something listens at its address and closes the connection before the handshake: it has no room for more connections from this network (its log says so), or it is not an aggregator"
	case errors.Is(err, syscall.ECONNREFUSED):
		return ": nothing listens at its address; is it running?"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), isTimeout && timeout.Timeout():
		return ": nothing answers in time at its address: a firewall, a wrong address, or an aggregator without file descriptors (see its log)"
	}
	return ""
}

// mostOthers is the number of dials in a row that a peer of another version lets a party make. They take about half a minute. A peer that
// has just begun to listen, or is stopping, speaks no protocol for a moment.
const mostOthers = 8

// otherVersion reports whether a peer speaks other protocols. libp2p hands on the text alone.
func otherVersion(err error) bool {
	return err != nil && strings.Contains(err.Error(), "protocols not supported")
}

// unknown says what to do if the aggregator does not know the peer's key.
func (l *Conn) unknown() string {
	switch l.protocol {
	case EnrolID:
		return ": it answers and does not know this invitation: it has not read tickets.json since (SIGHUP), or the operator has withdrawn the invitation"
	case RelayID:
		return fmt.Sprintf(": it answers and does not know this relay: start the aggregator with --relay %s", l.identity.Public())
	default:
		return ": it answers and does not know this party: the party was revoked, or the aggregator has lost its list of who is enrolled, or a relay has not received that list yet. " +
			"Tell the operator, who restores the aggregator's state, from a backup or from lists (fednode enrolled), or sends a new invitation"
	}
}
