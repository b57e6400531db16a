package peer

import (
	"container/list"
	"errors"
	"io"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/fedsim/fedsim/internal/locked"
)

// connLimiter is a resource manager that shares the room for unauthenticated connections among the addresses they come from. libp2p's own
// refuses newcomers when the room is used up, so strangers at two addresses who dial and stay silent would keep all peers out.
//
// Over TCP the address with the most unauthenticated connections loses its oldest one to a newcomer. So a peer at any other address gets
// in. A peer behind the same address as strangers must end its handshake before the strangers who arrive in the meantime fill the room.
//
// A QUIC connection cannot be closed from here before its handshake is over. So a newcomer is refused if its address already has as many as
// are left for all: strangers at k addresses leave one place in k+1.
type connLimiter struct {
	network.ResourceManager
	room room
	gate *AllowList // the connections of peers that it does not let in stay unknown

	mu      sync.Mutex
	doors   map[string]io.Closer // connections that were accepted, by where they come from, until OpenConnection
	sources map[netip.Prefix]*source
	streams int // unauthenticated TCP connections
	packets int // unauthenticated QUIC connections
}

type source struct {
	all     int       // connections, authenticated ones included
	streams list.List // of *pendingConn: unauthenticated TCP connections, oldest first
	packets int       // number of unauthenticated QUIC connections
}

// pendingConn is the scope of an inbound connection.
type pendingConn struct {
	network.ConnManagementScope
	limiter *connLimiter
	from    netip.Prefix
	remote  multiaddr.Multiaddr
	close   io.Closer     // nil: it cannot be closed yet
	at      *list.Element // among its source's streams; nil: not there
	packet  bool          // counted among packets
	gone    bool
}

// newConnLimiter makes the limiter behind a gate, which tells it of connections that it can close.
func newConnLimiter(r room, gate *AllowList) (*connLimiter, error) {
	m, err := rcmgr.NewResourceManager(r.limiter(), r.addresses(), r.arrivals())
	if err != nil {
		return nil, err
	}
	gate.door = &connLimiter{ResourceManager: m, room: r, gate: gate, doors: make(map[string]io.Closer), sources: make(map[netip.Prefix]*source)}
	return gate.door, nil
}

func overTCP(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_TCP)
	return err == nil
}

// sourceOf returns the address that a connection counts for, as in room.addresses. All connections without an IP address count together.
func sourceOf(a multiaddr.Multiaddr) netip.Prefix {
	ip, err := manet.ToIP(a)
	if err != nil {
		return netip.Prefix{}
	}
	address, _ := netip.AddrFromSlice(ip)
	address = address.Unmap()
	bits := sourceBits6
	if address.Is4() {
		bits = sourceBits4
	}
	p, _ := address.Prefix(bits) // the bits are right
	return p
}

// OpenConnection makes room for an inbound connection as described at connLimiter, or refuses it.
func (d *connLimiter) OpenConnection(dir network.Direction, usefd bool, endpoint multiaddr.Multiaddr) (network.ConnManagementScope, error) {
	if dir != network.DirInbound || endpoint == nil {
		return d.ResourceManager.OpenConnection(dir, usefd, endpoint)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &pendingConn{limiter: d, from: sourceOf(endpoint), remote: endpoint, close: d.doors[endpoint.String()]}
	delete(d.doors, endpoint.String())
	if err := d.makeRoom(p); err != nil {
		return nil, d.refuse(p, err)
	}
	var err error
	if p.ConnManagementScope, err = d.ResourceManager.OpenConnection(dir, usefd, endpoint); err != nil {
		return nil, d.refuse(p, err)
	}
	s := d.sources[p.from]
	if s == nil {
		s = new(source)
		d.sources[p.from] = s
	}
	s.all++
	if p.close != nil {
		p.at = s.streams.PushBack(p)
		d.streams++
	} else {
		p.packet = true
		s.packets++
		d.packets++
	}
	return p, nil
}

// refuse reports a connection for which there is no room, and returns the reason.
func (d *connLimiter) refuse(p *pendingConn, err error) error {
	if d.gate.NoRoom != nil {
		d.gate.NoRoom(p.remote, err)
	}
	return err
}

// makeRoom has others give way to a connection, or says that there is no room for it.
func (d *connLimiter) makeRoom(p *pendingConn) error {
	s := d.sources[p.from]
	if p.close == nil {
		if s != nil && s.packets >= d.room.packets-d.packets {
			return errors.New("node: too many connections of unknown peers from one address")
		}
		return nil
	}
	if s != nil && s.all >= d.room.address && !p.from.Addr().IsLoopback() {
		s.putOut() // or libp2p turns it away
	}
	if d.streams >= d.room.streams { // at most as many sources as connections, some thousands
		slices.MaxFunc(slices.Collect(maps.Values(d.sources)), func(a, b *source) int { return a.streams.Len() - b.streams.Len() }).putOut()
	}
	return nil
}

// putOut closes the oldest unauthenticated TCP connection of a source, if there is one.
func (s *source) putOut() {
	if oldest := s.streams.Front(); oldest != nil {
		p := oldest.Value.(*pendingConn)
		p.leave()
		_ = p.close.Close() // the transport meets the end of it, too
	}
}

// known removes the connection from the unauthenticated ones. The caller holds mu.
func (p *pendingConn) known() {
	d, s := p.limiter, p.limiter.sources[p.from]
	if p.at != nil {
		s.streams.Remove(p.at)
		p.at = nil
		d.streams--
	}
	if p.packet {
		p.packet = false
		s.packets--
		d.packets--
	}
}

// leave is Done for who holds mu.
func (p *pendingConn) leave() {
	if p.gone {
		return
	}
	p.gone = true
	p.known()
	s := p.limiter.sources[p.from]
	if s.all--; s.all == 0 {
		delete(p.limiter.sources, p.from)
	}
	p.ConnManagementScope.Done()
}

// SetPeer implements network.ConnManagementScope: the transport has proved who the peer is and, over TCP, the gate has let it pass.
func (p *pendingConn) SetPeer(id peer.ID) error {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	if p.gone {
		return p.limiter.refuse(p, errors.New("node: the connection has given way to another"))
	}
	if err := p.ConnManagementScope.SetPeer(id); err != nil {
		return p.limiter.refuse(p, err)
	}
	if p.limiter.gate.Allow(id) {
		p.known()
	}
	return nil
}

// Done ends the connection and frees its room.
func (p *pendingConn) Done() { locked.Do(&p.limiter.mu, p.leave) }
