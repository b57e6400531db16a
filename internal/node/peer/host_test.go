package peer

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	connectionmanager "github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/multiformats/go-multiaddr"
)

// Each test of this file shows a default of libp2p under which a hub turns its federation away,
// beside the hub's own setting. The figures of the defaults are from libp2p's sources:
// conn_limiter.go, conn_rate_limiter.go and limit_defaults.go of its resource manager, and
// defaults.go.

// crowd is the number of peers in the federation.
const crowd = 300

// eight is libp2p's own limiter on a machine with 4,096 descriptors and 8 GiB of memory. The
// limiter takes an eighth of the memory.
func eight() rcmgr.Limiter {
	return rcmgr.NewFixedLimiter(rcmgr.DefaultLimits.Scale(1<<30, 4096))
}

// arrival is a connection that comes.
type arrival struct {
	address string
	peer    int // 0: it is not known yet whose
}

// from are n arrivals from addresses of their own or, if one is given, all from that.
func from(n int, address string, known bool) []arrival {
	list := make([]arrival, n)
	for i := range list {
		list[i].address = address
		if address == "" {
			list[i].address = fmt.Sprintf("198.18.%d.%d", i/250, 1+i%250)
		}
		if known {
			list[i].peer = i + 1
		}
	}
	return list
}

// letIn counts how many connections get past a resource manager and stay.
func letIn(t *testing.T, m network.ResourceManager, list []arrival) int {
	t.Helper()
	in := 0
	for _, a := range list {
		c, err := m.OpenConnection(network.DirInbound, true, multiaddr.StringCast("/ip4/"+a.address+"/tcp/40000"))
		if err != nil {
			continue
		}
		if a.peer > 0 && c.SetPeer(peer.ID(fmt.Sprintf("peer %d", a.peer))) != nil {
			c.Done()
			continue
		}
		in++
	}
	return in
}

// compare lets the same peers arrive at a hub with a default of libp2p, and at ours.
func compare(t *testing.T, list []arrival, standard rcmgr.Limiter, options []rcmgr.Option, want int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // no time passes meanwhile
		r := roomFor(crowd)
		own := []rcmgr.Option{r.addresses(), r.arrivals()}
		for _, c := range []struct {
			name    string
			limiter rcmgr.Limiter
			options []rcmgr.Option
			want    int
		}{{"the default", standard, options, want}, {"the hub", r.limiter(), own, len(list)}} {
			m, err := rcmgr.NewResourceManager(c.limiter, c.options...)
			if err != nil {
				t.Fatal(err)
			}
			if got := letIn(t, m, list); got != c.want {
				t.Errorf("%s lets in %d of %d, want %d", c.name, got, len(list), c.want)
			}
			if err = m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDefaultConnectionsOfOneAddress(t *testing.T) {
	r := roomFor(crowd)
	compare(t, from(crowd, "192.0.2.7", true), r.limiter(), []rcmgr.Option{r.arrivals()}, 8)
}

func TestDefaultRateOfOneAddress(t *testing.T) {
	r := roomFor(crowd)
	compare(t, from(crowd, "192.0.2.7", true), r.limiter(), []rcmgr.Option{r.addresses()}, 16)
}

// 64 inbound connections, and 64 for each GiB.
func TestDefaultConnectionsByMemory(t *testing.T) {
	compare(t, from(crowd, "", true), eight(), nil, 128)
}

// 32 inbound connections of whom it is not known yet who they are, and 16 for each GiB.
func TestDefaultDialsAtOnce(t *testing.T) {
	compare(t, from(crowd, "", false), eight(), nil, 48)
}

// idle is a connection on which nothing is said.
type idle struct {
	network.Conn
	peer  peer.ID
	close func(*idle)
}

func (c *idle) RemotePeer() peer.ID                        { return c.peer }
func (c *idle) Stat() network.ConnStats                    { return network.ConnStats{} }
func (c *idle) GetStreams() []network.Stream               { return nil }
func (c *idle) Close() error                               { c.close(c); return nil }
func (c *idle) CloseWithError(network.ConnErrorCode) error { return c.Close() }

func TestDefaultTrimming(t *testing.T) {
	for _, c := range []struct {
		name    string
		manager func() (*connectionmanager.BasicConnMgr, error)
		closed  int
	}{
		{"the default", func() (*connectionmanager.BasicConnMgr, error) {
			var c libp2p.Config
			err := libp2p.DefaultConnectionManager(&c)
			return c.ConnManager.(*connectionmanager.BasicConnMgr), err
		}, crowd - 160},
		{"the hub", roomFor(crowd).trim, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, err := c.manager()
			if err != nil {
				t.Fatal(err)
			}
			closed := 0
			for i := range crowd {
				m.Notifee().Connected(nil, &idle{peer: peer.ID(fmt.Sprintf("peer %d", i)), close: func(c *idle) {
					closed++
					m.Notifee().Disconnected(nil, c)
				}})
			}
			time.Sleep(2 * time.Minute) // of the bubble's clock
			if err = m.Close(); err != nil {
				t.Fatal(err)
			}
			if closed != c.closed {
				t.Errorf("%s closes %d of %d idle connections after a minute, want %d", c.name, closed, crowd, c.closed)
			}
		})
	}
}

// Strangers who dial and say nothing keep no peer out. From one address they leave room for all
// other peers to arrive; from many they take no room of known peers.
func TestRoomBesideStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := roomFor(crowd)
		for _, c := range []struct {
			name  string
			first []arrival
			in    int
			then  []arrival
			want  int
		}{
			{"of one address, first", from(10*r.address, "192.0.2.7", false), r.address, from(r.address, "", true), r.address},
			{"of many addresses, later", from(r.address, "", true), r.address, from(10*r.address, "", false), r.unknown},
		} {
			m, err := rcmgr.NewResourceManager(r.limiter(), r.addresses(), r.arrivals())
			if err != nil {
				t.Fatal(err)
			}
			first, then := letIn(t, m, c.first), letIn(t, m, c.then)
			if first != c.in || then != c.want {
				t.Errorf("strangers %s: %d are let in and then %d, want %d and %d", c.name, first, then, c.in, c.want)
			}
			if err = m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// identity is the key of a host of the tests.
func identity(n int) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0], seed[1] = byte(n), byte(n>>8)
	return ed25519.NewKeyFromSeed(seed)
}

func anybody() *AllowList { return &AllowList{Allow: func(peer.ID) bool { return true }} }

// outward is an address of this machine that others could dial.
func outward(t *testing.T) net.IP {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP
		}
	}
	t.Skip("this machine has loopback addresses only, of which connections are not counted")
	return nil
}

// TestFederationBehindOneAddress repeats TestDefaultConnectionsOfOneAddress over sockets: 20 hosts
// of this machine dial the hub by its address in the network.
func TestFederationBehindOneAddress(t *testing.T) {
	const peers = 20
	listen := fmt.Sprintf("/ip4/%s/tcp/0", outward(t))
	standard, err := libp2p.New(libp2p.ListenAddrStrings(listen), libp2p.DisableMetrics(), libp2p.DisableRelay())
	if err != nil {
		t.Fatal(err)
	}
	hub, err := NewHub(identity(1), []string{listen}, peers, anybody())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		host host.Host
		want int
	}{{"the default", standard, 8}, {"the hub", hub, peers}} {
		defer c.host.Close() //nolint:errcheck // nothing is left to be lost
		answered := 0
		for i := range peers {
			leaf, err := newPeerHost(identity(100+i), []peer.ID{c.host.ID()})
			if err != nil {
				t.Fatal(err)
			}
			defer leaf.Close() //nolint:errcheck // nothing is left to be lost
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if leaf.Connect(ctx, peer.AddrInfo{ID: c.host.ID(), Addrs: c.host.Addrs()}) == nil {
				answered++
			}
			cancel()
		}
		if got := len(c.host.Network().Peers()); got != c.want || answered != c.want {
			t.Errorf("%s holds connections of %d hosts, and %d believe that they have one; want %d of %d", c.name, got, answered, c.want, peers)
		}
	}
}

// With QUIC, Connect may return nil before the hub has decided, and the hub does not know of the
// connection. On a busy machine the hub's decision comes first now and then. (A peer that registers
// waits for the hub's answer, see TestRegistrationIsTheAggregatorsWord.)
func TestDefaultConnectOverQUIC(t *testing.T) {
	nobody := &AllowList{Allow: func(peer.ID) bool { return false }}
	hub, err := NewHub(identity(1), []string{"/ip4/127.0.0.1/udp/0/quic-v1"}, 1, nobody)
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close() //nolint:errcheck // nothing is left to be lost
	believed := false
	for try := 0; try < 50 && !believed; try++ {
		leaf, err := newPeerHost(identity(2), []peer.ID{hub.ID()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		believed = leaf.Connect(ctx, peer.AddrInfo{ID: hub.ID(), Addrs: hub.Addrs()}) == nil
		cancel()
		_ = leaf.Close() // nothing is left to be lost
	}
	if !believed {
		t.Error("Connect has failed 50 times; if that is how it is now, registration need not be acknowledged")
	}
	if held := len(hub.Network().Conns()); held != 0 {
		t.Errorf("the hub holds %d connections of a peer that it does not let in", held)
	}
}
