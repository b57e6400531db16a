package hub

import (
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
	"golang.org/x/time/rate"
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
