package peer

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	connectionmanager "github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/x/rate"
	"github.com/rs/zerolog"
)

// NewHub makes the host that every other peer dials. The defaults of libp2p are for a node among many equals. They break a hub that the
// whole federation dials; each setting here replaces one of them.
func NewHub(identity ed25519.PrivateKey, listen []string, peers int, gate *AllowList, over ...libp2p.Option) (host.Host, error) {
	if len(over) == 0 {
		if err := free(listen); err != nil {
			return nil, err
		}
	}
	r := roomFor(peers)
	door, err := newConnLimiter(r, gate.Allow)
	if err != nil {
		return nil, err
	}
	door.refused = gate.refused
	trim, err := r.trim()
	if err != nil {
		return nil, err
	}
	h, err := newHost(identity, &gatedDoor{gate, door}, door, append(secured(over), libp2p.ListenAddrStrings(listen...), libp2p.ConnectionManager(trim))...)
	if err != nil {
		return nil, err
	}
	if err = listenAll(h.Network(), listen, withoutIPv6); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// room counts the connections that an aggregator has room for.
type room struct {
	// address is from one address: the whole federation may be behind one NAT, and who
	// redials before the old connection is found dead has two.
	address int
	// unknown is for unauthenticated connections, all that a stranger ever has: streams of
	// them over TCP, packets over QUIC. The connLimiter shares them among addresses.
	unknown, streams, packets int
	// all leaves room for every enrolled peer when unknown is taken.
	all int
}

func roomFor(peers int) room {
	n := 2*peers + 64
	return room{address: n, unknown: 4 * n, streams: 2 * n, packets: 2 * n, all: 5 * n}
}

// How much of an address counts as one: of IPv6, what a customer is given.
const (
	sourceBits4 = 32
	sourceBits6 = 56
)

// A peer, enrolled or invited, may have these at once.
const (
	peerConns   = 4       // two when it redials, by either transport
	peerStreams = 16      // in each direction: one of its own, and libp2p's
	peerMemory  = 8 << 20 // bytes of windows of streams, which stop growing at half of it
)

// limiter bounds connections, streams and memory. By default the number of inbound connections goes by the machine's memory, and few may
// shake hands at a time, which cuts off most of a federation that dials at once.
func (r room) limiter() rcmgr.Limiter {
	conns := func(n int, memory int64) rcmgr.ResourceLimits {
		streams := rcmgr.LimitVal(n * peerStreams)
		return rcmgr.ResourceLimits{Conns: rcmgr.LimitVal(n), ConnsInbound: rcmgr.LimitVal(n), ConnsOutbound: rcmgr.BlockAllLimit,
			FD: rcmgr.LimitVal(n), Streams: 2 * streams, StreamsInbound: streams, StreamsOutbound: streams, Memory: rcmgr.LimitVal64(memory)}
	}
	all := conns(r.all, int64(r.address)*peerMemory)
	ofPeer := conns(peerConns, peerMemory)
	ofPeer.Streams, ofPeer.StreamsInbound, ofPeer.StreamsOutbound = 2*peerStreams, peerStreams, peerStreams
	ofProtocol := rcmgr.ResourceLimits{Streams: all.Streams, StreamsInbound: all.StreamsInbound, StreamsOutbound: all.StreamsOutbound, Memory: all.Memory}
	return rcmgr.NewFixedLimiter(rcmgr.PartialLimitConfig{
		System: all, Transient: conns(r.unknown, int64(r.unknown)<<20), PeerDefault: ofPeer, ProtocolDefault: ofProtocol, ServiceDefault: ofProtocol,
	}.Build(rcmgr.DefaultLimits.AutoScale()))
}

// addresses bounds the connections of one address. By default there are 8: a federation behind one NAT would not get in.
func (r room) addresses() rcmgr.Option {
	return rcmgr.WithLimitPerSubnet([]rcmgr.ConnLimitPerSubnet{{PrefixLength: sourceBits4, ConnCount: r.address}},
		[]rcmgr.ConnLimitPerSubnet{{PrefixLength: sourceBits6, ConnCount: r.address}})
}

// arrivals bounds how fast connections come from one address. By default it is one in five seconds after a burst of 16.
func (r room) arrivals() rcmgr.Option {
	often := rate.Limit{RPS: float64(r.address) / 10, Burst: r.address}
	return rcmgr.WithConnRateLimiters(&rate.Limiter{
		NetworkPrefixLimits: []rate.PrefixLimit{
			{Prefix: netip.MustParsePrefix("127.0.0.0/8")}, {Prefix: netip.MustParsePrefix("::1/128")}},
		SubnetRateLimiter: rate.SubnetLimiter{
			IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: sourceBits4, Limit: often}},
			IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: sourceBits6, Limit: often}},
			GracePeriod:      time.Minute,
		},
	})
}

// trim is when idle connections are closed: not before there are more than enrolled
// peers can have. By default those above 192 are trimmed to 160 after a minute.
func (r room) trim() (*connectionmanager.BasicConnMgr, error) {
	return connectionmanager.NewConnManager(r.address, r.all, connectionmanager.WithGracePeriod(time.Minute))
}

// newPeerHost makes the host of a client, a relay or the server. It dials one of a few peers, listens nowhere, and accepts no connection.
func newPeerHost(identity ed25519.PrivateKey, peers []peer.ID, over ...libp2p.Option) (host.Host, error) {
	few := rcmgr.ResourceLimits{Conns: 8, ConnsInbound: 8, ConnsOutbound: 8, Streams: 64, StreamsInbound: 64, StreamsOutbound: 64, FD: 16, Memory: 64 << 20}
	limits, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(
		rcmgr.PartialLimitConfig{System: few, Transient: few}.Build(rcmgr.DefaultLimits.AutoScale())))
	if err != nil {
		return nil, err
	}
	return newHost(identity, only(peers...), limits, append(secured(over), libp2p.NoListenAddrs)...)
}

// secured returns the options of the transports: over TCP Noise alone, which has keys and no dates. Certificates of TLS are valid from an
// hour before they are made, so that a machine whose clock is further behind would be shut out. QUIC has no other way.
func secured(over []libp2p.Option) []libp2p.Option {
	if len(over) > 0 {
		return slices.Clip(over)
	}
	return []libp2p.Option{libp2p.Security(noise.ID, noise.New)}
}

func newHost(identity ed25519.PrivateKey, gate connmgr.ConnectionGater, limits network.ResourceManager, more ...libp2p.Option) (host.Host, error) {
	key, err := crypto.UnmarshalEd25519PrivateKey(identity)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	h, err := libp2p.New(append([]libp2p.Option{
		libp2p.Identity(key), libp2p.ConnectionGater(gate), libp2p.ResourceManager(limits),
		libp2p.Muxer(yamux.ID, slowMuxer()),
		// Nothing is asked of strangers, and nothing offered to them.
		libp2p.DisableRelay(), libp2p.DisableMetrics(), libp2p.Ping(false), libp2p.UserAgent("fedsim"), libp2p.DisableIdentifyAddressDiscovery(),
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return h, nil
}

// slowMuxer multiplexes streams over slow lines. By default a peer has 10 s to confirm that it is there, and a
// window grows to 16 MiB, behind which that waits: a line that is full is taken for a dead one.
func slowMuxer() *yamux.Transport {
	c := *yamux.DefaultTransport.Config()
	c.ConnectionWriteTimeout = Patience
	c.MaxStreamWindowSize = window
	return (*yamux.Transport)(&c)
}

// spareDescriptors are for what is no connection: listeners, files, the monitor.
const spareDescriptors = 64

// WarnOfFewDescriptors warns if the process may open fewer files than an aggregator of so many peers needs.
func WarnOfFewDescriptors(peers int, log *zerolog.Logger) {
	if limit, ok := descriptors(); ok {
		roomFor(peers).fits(limit, log)
	}
}

// fits warns if the process may open fewer files than the room needs.
func (r room) fits(descriptors uint64, log *zerolog.Logger) {
	if need := uint64(r.all + spareDescriptors); descriptors < need {
		log.Warn().Uint64("descriptors", descriptors).Uint64("needed", need).
			Msg("this process may open too few files: once they are used up, parties are not let in and see no reason. Raise ulimit -n (LimitNOFILE= in a unit)")
	}
}
