package peer

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

// AllowList lets peers connect that an allowing function names. It is asked once the
// transport has proved who the peer is: before that there is nothing to judge by.
type AllowList struct {
	Allow func(peer.ID) bool
	// TurnedAway, if set, hears of each connection of a peer that is not allowed.
	TurnedAway func(network.Conn)
	// NoRoom, if set, hears of each connection for which there is no room.
	NoRoom func(from multiaddr.Multiaddr, err error)
}

// refused reports a connection for which there is no room.
func (g *AllowList) refused(from multiaddr.Multiaddr, err error) {
	if g.NoRoom != nil {
		g.NoRoom(from, err)
	}
}

// only is the gate that lets some peers pass.
func only(peers ...peer.ID) *AllowList {
	return &AllowList{Allow: func(p peer.ID) bool { return slices.Contains(peers, p) }}
}

func (g *AllowList) InterceptPeerDial(p peer.ID) bool { return g.Allow(p) }

func (g *AllowList) InterceptAddrDial(p peer.ID, _ multiaddr.Multiaddr) bool { return g.Allow(p) }

// InterceptAccept lets every connection begin: the peer is not known before the handshake.
func (g *AllowList) InterceptAccept(network.ConnMultiaddrs) bool { return true }

// InterceptSecured implements connmgr.ConnectionGater. A peer that is not allowed hears so from
// InterceptUpgraded: until then its connection counts as unknown (pendingConn.SetPeer).
func (g *AllowList) InterceptSecured(d network.Direction, p peer.ID, _ network.ConnMultiaddrs) bool {
	return d == network.DirInbound || g.Allow(p)
}

// InterceptUpgraded cuts a connection if the peer is not allowed in.
func (g *AllowList) InterceptUpgraded(c network.Conn) (bool, control.DisconnectReason) {
	if g.Allow(c.RemotePeer()) {
		return true, 0
	}
	if g.TurnedAway != nil {
		g.TurnedAway(c)
	}
	return false, 0
}
