package node

import (
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

// allowlist lets peers connect that an allowing function names. It is asked once the
// transport has proved who the peer is: before that there is nothing to judge by.
type allowlist struct {
	mu    sync.RWMutex
	allow func(peer.ID) bool
	// turnedAway, if set, hears of each connection of a peer that is not allowed.
	turnedAway func(network.Conn)
	// noRoom, if set, hears of each connection for which there is no room.
	noRoom func(from multiaddr.Multiaddr, err error)
}

// refused reports a connection for which there is no room.
func (g *allowlist) refused(from multiaddr.Multiaddr, err error) {
	if g.noRoom != nil {
		g.noRoom(from, err)
	}
}

// only is the gate that lets some peers pass.
func only(peers ...peer.ID) *allowlist {
	return &allowlist{allow: func(p peer.ID) bool { return slices.Contains(peers, p) }}
}

func (g *allowlist) set(allow func(peer.ID) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allow = allow
}

func (g *allowlist) allows(p peer.ID) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.allow(p)
}

// InterceptPeerDial implements connmgr.ConnectionGater.
func (g *allowlist) InterceptPeerDial(p peer.ID) bool { return g.allows(p) }

// InterceptAddrDial implements connmgr.ConnectionGater.
func (g *allowlist) InterceptAddrDial(p peer.ID, _ multiaddr.Multiaddr) bool { return g.allows(p) }

// InterceptAccept implements connmgr.ConnectionGater.
func (g *allowlist) InterceptAccept(network.ConnMultiaddrs) bool { return true }

// InterceptSecured implements connmgr.ConnectionGater. A peer that is not allowed hears so from
// InterceptUpgraded: until then its connection counts as unknown (pendingConn.SetPeer).
func (g *allowlist) InterceptSecured(d network.Direction, p peer.ID, _ network.ConnMultiaddrs) bool {
	return d == network.DirInbound || g.allows(p)
}

// InterceptUpgraded implements connmgr.ConnectionGater.
func (g *allowlist) InterceptUpgraded(c network.Conn) (bool, control.DisconnectReason) {
	if g.allows(c.RemotePeer()) {
		return true, 0
	}
	if g.turnedAway != nil {
		g.turnedAway(c)
	}
	return false, 0
}
