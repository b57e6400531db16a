package hub

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
	"golang.org/x/time/rate"

	"github.com/fedsim/fedsim/node/session"
)

// turnedAway returns a function that logs peers that are neither enrolled nor invited. Strangers may be
// many, so the limiter bounds the lines.
func (a *Aggregator) turnedAway(often *rate.Limiter) func(network.Conn) {
	return func(c network.Conn) {
		if !often.Allow() {
			return
		}
		text := "turned away: this peer is not enrolled, holds no ticket that was read here, and is no relay. If it is a party of yours, the tickets were not read (SIGHUP), " +
			"or the state of this aggregator has lost its enrolment. If it is a relay, name its key with --relay"
		if a.above != nil {
			text = "turned away: this peer is not on the list of parties that the aggregator has sent to this relay. A party enrols with the aggregator first"
		}
		a.cfg.Log.Warn().Stringer("peer", c.RemotePeer()).Stringer("address", c.RemoteMultiaddr()).Msg(text)
	}
}

// noRoom returns a function that logs connections for which there is no room.
func (a *Aggregator) noRoom(often *rate.Limiter) func(multiaddr.Multiaddr, error) {
	return func(from multiaddr.Multiaddr, err error) {
		if often.Allow() {
			a.cfg.Log.Warn().Err(err).Stringer("address", from).
				Msg("turned away for lack of room: this party or this address has too many connections, or all addresses together have. A party closes its older connections by itself; many of one address are of strangers, whom a firewall keeps out")
		}
	}
}

// refuseSecond refuses a server for good if another process of it is connected and still answers: both would lead sessions, and
// clients would pay for the sessions of both. It reports whether it has.
func (a *Aggregator) refuseSecond(c *conn) (bool, error) {
	a.mu.Lock()
	old := a.conns[c.place]
	a.mu.Unlock()
	if old == nil || old.life == c.life || !old.answers(a.ctx) {
		return false, nil
	}
	a.cfg.Log.Error().Stringer("leads", old.stream.Conn().RemoteMultiaddr()).Stringer("refused", c.stream.Conn().RemoteMultiaddr()).
		Msg("a second process has registered as the server and is refused: its state was copied, or it was started twice")
	return true, session.Conclude(c.stream, &session.Message{Refused: "another process of this server is connected and leads the session. This state was copied, or its server was started twice: " +
		"stop one of the two and delete its copy, since clients would pay for the sessions of both", ForGood: true})
}

// answers reports whether the process behind a connection reads a new stream: hosts of libp2p greet each.
func (c *conn) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	s, err := c.stream.Conn().NewStream(ctx)
	if err != nil {
		return false
	}
	defer s.Reset() //nolint:errcheck // nothing is left to be lost
	_ = s.SetDeadline(time.Now().Add(answerTimeout))
	if _, err = s.Write([]byte("\x13/multistream/1.0.0\n")); err == nil {
		_, err = s.Read(make([]byte, 1))
	}
	return err == nil
}

const answerTimeout = 5 * time.Second

// supplant closes a party's older connection in favour of a newer one. If another process holds the newer
// one, both sides learn why. The caller holds mu.
func (a *Aggregator) supplant(old, c *conn) {
	if old.life == c.life {
		old.close()
		return
	}
	select {
	case <-old.closed: // the older process has left
		return
	default:
	}
	old.closeWith(network.StreamSupplanted)
	line := a.cfg.Log.Warn().Stringer("place", c.place)
	for name, x := range map[string]*conn{"older": old, "newer": c} {
		if x.stream != nil {
			line = line.Stringer(name, x.stream.Conn().RemoteMultiaddr())
		}
	}
	line.Msg("another process has registered as this party, whose older process was still connected. If its machine did not just fail, " +
		"two machines run copies of one state: tell the owner to stop one")
}
