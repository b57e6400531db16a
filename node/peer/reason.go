package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

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
func (l *Conn) met(_ network.Network, c network.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest = c
}

// closedBy adds to the error of a stream why the aggregator closed the connection, if it did.
func (l *Conn) closedBy(ctx context.Context, err error) error {
	l.mu.Lock()
	c := l.newest
	l.mu.Unlock()
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
	case wrongClock(err):
		return ": the clock of this machine or of the aggregator is wrong by an hour or more, which QUIC does not bear. Set both clocks by NTP, or dial the aggregator over TCP"
	case errors.Is(err, swarm.ErrNoGoodAddresses):
		return ": the name in its address leads nowhere: this machine's DNS does not know it, or the address is wrong (--aggregator gives another)"
	case err != nil && strings.Contains(err.Error(), "protocols not supported"): // libp2p hands on the text alone
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

// wrongClock reports whether a certificate of QUIC is not valid by this machine's clock. libp2p hands on the text alone.
func wrongClock(err error) bool {
	return err != nil && strings.Contains(err.Error(), "certificate has expired or is not yet valid")
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
