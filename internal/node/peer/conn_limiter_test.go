package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// visitor is a connection that the door can close.
type visitor struct {
	network.ConnMultiaddrs
	from   multiaddr.Multiaddr
	scope  network.ConnManagementScope
	closed bool
}

func (v *visitor) RemoteMultiaddr() multiaddr.Multiaddr { return v.from }
func (v *visitor) Close() error                         { v.closed = true; return nil }

// entrance is a hub's limiter of connections without sockets.
type entrance struct {
	t    *testing.T
	door *connLimiter
	gate *AllowList
	made int
}

// entrances runs a test at the door of a hub for so many peers, in virtual time.
func entrances(t *testing.T, peers int, test func(*entrance)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		gate := anybody()
		door, err := newConnLimiter(roomFor(peers), gate)
		if err != nil {
			t.Fatal(err)
		}
		test(&entrance{t: t, door: door, gate: gate})
		if err = door.Close(); err != nil {
			t.Error(err)
		}
	})
}

// dial is a connection by TCP from an address, nil if it is turned away.
func (e *entrance) dial(address string) *visitor {
	e.made++
	v := &visitor{from: multiaddr.StringCast(fmt.Sprintf("/ip4/%s/tcp/%d", address, 1024+e.made%60000))}
	if !e.gate.InterceptAccept(v) {
		e.t.Fatal("the gate judges by who a peer is, which is not known here")
	}
	var err error
	if v.scope, err = e.door.OpenConnection(network.DirInbound, true, v.from); err != nil {
		return nil
	}
	return v
}

// enters says whether a peer, enrolled and so past the gate, gets in that dialled.
func (v *visitor) enters(name string) bool {
	return v != nil && !v.closed && v.scope.SetPeer(peer.ID(name)) == nil
}

// 664 strangers at each of two addresses dial a hub with room for 300 enrolled peers and say
// nothing. All 300 peers get in, one after another or all at once, from addresses of their own or
// from a single one. None of them is put out.
func TestPeersGetPastStrangersOfTwoAddresses(t *testing.T) {
	for _, c := range []struct {
		name     string
		attack   []string
		own      bool // addresses
		together bool
	}{
		{"one by one", []string{"192.0.2.7", "192.0.2.8"}, true, false},
		{"at once", []string{"192.0.2.7", "192.0.2.8"}, true, true},
		{"behind one address", []string{"192.0.2.7", "192.0.2.8"}, false, true},
		{"from many addresses", many(60), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			entrances(t, crowd, func(e *entrance) {
				for range roomFor(crowd).address {
					for _, a := range c.attack {
						e.dial(a)
					}
				}
				in := 0
				var waiting []*visitor
				for i, a := range from(crowd, "", false) {
					if !c.own {
						a.address = "198.51.100.1"
					}
					v := e.dial(a.address)
					if c.together {
						waiting = append(waiting, v)
					} else if v.enters(fmt.Sprintf("peer %d", i)) {
						in++
					}
				}
				for i, v := range waiting {
					if v.enters(fmt.Sprintf("peer %d", i)) {
						in++
					}
				}
				if in != crowd {
					t.Errorf("%d of %d enrolled peers get in", in, crowd)
				}
			})
		})
	}
}

// many are so many addresses.
func many(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("192.0.2.%d", i))
	}
	return list
}

// Strangers push out each other, never a peer that is known, and have no more
// connections at a time than there is room for: what is evicted is closed.
func TestStrangersPushOutEachOther(t *testing.T) {
	entrances(t, 8, func(e *entrance) {
		r := roomFor(8)
		known := e.dial("192.0.2.7")
		if !known.enters("peer") {
			t.Fatal("a peer does not get in at an empty door")
		}
		var all []*visitor
		for range 5 {
			for _, a := range many(40) {
				if v := e.dial(a); v != nil {
					all = append(all, v)
				}
			}
		}
		held := 0
		for _, v := range all {
			if !v.closed {
				held++
			}
		}
		if held == 0 || held > r.streams {
			t.Errorf("strangers hold %d connections, want some and at most %d", held, r.unknown)
		}
		if known.closed {
			t.Error("strangers put out a peer that had come in")
		}
		var stat network.ScopeStat
		if err := e.door.ViewTransient(func(s network.ResourceScope) error { stat = s.Stat(); return nil }); err != nil {
			t.Fatal(err)
		}
		if stat.NumConnsInbound != held {
			t.Errorf("%d connections are counted of those not known, and %d are held", stat.NumConnsInbound, held)
		}
		for _, v := range all {
			v.scope.Done() // as the transport does at the end of each
			v.scope.Done()
		}
		if n := e.door.streams + len(e.door.doors); n != 0 || len(e.door.sources) != 1 {
			t.Errorf("%d connections and %d addresses are remembered when all strangers have gone, want 0 and 1", n, len(e.door.sources))
		}
	})
}

// Over QUIC a connection cannot be closed before it is known whose it is. Strangers of
// each address leave as much free there as they take.
func TestStrangersOverQUIC(t *testing.T) {
	entrances(t, crowd, func(e *entrance) {
		udp := func(address string) network.ConnManagementScope {
			e.made++
			s, err := e.door.OpenConnection(network.DirInbound, false, multiaddr.StringCast(fmt.Sprintf("/ip4/%s/udp/%d/quic-v1", address, 1024+e.made)))
			if err != nil {
				return nil
			}
			return s
		}
		for range roomFor(crowd).address {
			for _, a := range many(5) {
				udp(a)
			}
		}
		in := 0
		for i, a := range from(crowd, "", false) {
			if s := udp(a.address); s != nil && s.SetPeer(peer.ID(fmt.Sprintf("peer %d", i))) == nil {
				in++
			}
		}
		if in != crowd {
			t.Errorf("%d of %d enrolled peers get in", in, crowd)
		}
	})
}

// A source is one address of IPv4, or a customer's 2^72 addresses of IPv6.
func TestSourceOfAConnection(t *testing.T) {
	for from, want := range map[string]string{
		"/ip4/192.0.2.7/tcp/1":                  "192.0.2.7/32",
		"/ip6/::ffff:192.0.2.7/tcp/1":           "192.0.2.7/32",
		"/ip6/2001:db8:0:1234::5/tcp/1":         "2001:db8:0:1200::/56",
		"/ip6/2001:db8:0:12ff::9/udp/1/quic-v1": "2001:db8:0:1200::/56",
	} {
		if got := sourceOf(multiaddr.StringCast(from)); got != netip.MustParsePrefix(want) {
			t.Errorf("%s counts for %s, want %s", from, got, want)
		}
	}
}

// TestPeersGetPastStrangersOverTCP repeats TestPeersGetPastStrangersOfTwoAddresses over sockets.
func TestPeersGetPastStrangersOverTCP(t *testing.T) {
	const peers = 8
	room := roomFor(peers)
	hub, err := NewHub(identity(1), []string{"/ip4/127.0.0.1/tcp/0"}, peers, anybody())
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close() //nolint:errcheck // nothing is left to be lost
	at, err := manet.ToNetAddr(hub.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.2", "127.0.0.3"} {
		for range room.address {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
			c, err := d.DialContext(t.Context(), "tcp", at.String())
			if err != nil {
				t.Skipf("this machine does not dial from %s: %v", address, err)
			}
			defer c.Close() //nolint:errcheck // nothing is left to be lost
		}
	}
	unknown := func() (n int) {
		_ = hub.Network().ResourceManager().ViewTransient(func(s network.ResourceScope) error { n = s.Stat().NumConnsInbound; return nil })
		return n
	}
	for range 100 {
		if unknown() >= room.streams {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := range peers {
		leaf, err := newPeerHost(identity(100+i), []peer.ID{hub.ID()}, libp2p.Transport(tcp.NewTCPTransport))
		if err != nil {
			t.Fatal(err)
		}
		defer leaf.Close() //nolint:errcheck // nothing is left to be lost
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err = leaf.Connect(ctx, peer.AddrInfo{ID: hub.ID(), Addrs: hub.Addrs()}); err != nil {
			t.Errorf("peer %d: %v", i, err)
		}
		cancel()
	}
	if got := len(hub.Network().Peers()); got != peers {
		t.Errorf("%d of %d enrolled peers get in", got, peers)
	}
}

var _ io.Closer = (*visitor)(nil)
