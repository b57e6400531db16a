package node

import (
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	connectionmanager "github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/x/rate"
)

// Listen is where an aggregator listens unless it is told otherwise: on all
// addresses, over TCP and QUIC.
var Listen = []string{"/ip4/0.0.0.0/tcp/7946", "/ip4/0.0.0.0/udp/7946/quic-v1"}

// newHub makes the host that everybody dials. The defaults of libp2p are for a
// node among many equals and break one that has the whole federation at its
// door; each line here is for one of them.
func newHub(identity ed25519.PrivateKey, listen []string, peers int, gate connmgr.ConnectionGater) (host.Host, error) {
	limits, err := hubLimits(peers)
	if err != nil {
		return nil, err
	}
	// By default idle connections above 192 are trimmed to 160 after a minute.
	trim, err := connectionmanager.NewConnManager(2*peers+64, 4*peers+128, connectionmanager.WithGracePeriod(time.Minute))
	if err != nil {
		return nil, err
	}
	return newHost(identity, gate, limits, libp2p.ListenAddrStrings(listen...), libp2p.ConnectionManager(trim))
}

// hubLimits are the resources that so many enrolled peers may take, all at once
// and from one address, and little besides.
func hubLimits(peers int) (network.ResourceManager, error) {
	conns := 2*peers + 64 // a peer that redials before the old connection is found dead has two
	streams := 4 * conns
	all := rcmgr.ResourceLimits{
		// By default inbound connections are limited by the machine's memory.
		Conns: rcmgr.LimitVal(conns), ConnsInbound: rcmgr.LimitVal(conns), ConnsOutbound: 8,
		Streams: rcmgr.LimitVal(streams), StreamsInbound: rcmgr.LimitVal(streams), StreamsOutbound: rcmgr.LimitVal(streams),
		FD: rcmgr.LimitVal(conns), Memory: rcmgr.LimitVal64(int64(conns) * connMemory),
	}
	peerLimit := rcmgr.ResourceLimits{
		Conns: 4, ConnsInbound: 4, ConnsOutbound: 4, Streams: 32, StreamsInbound: 32, StreamsOutbound: 32,
		FD: 4, Memory: rcmgr.LimitVal64(4 * connMemory),
	}
	config := rcmgr.PartialLimitConfig{
		System: all,
		// By default a burst of dials is cut off while they shake hands.
		Transient:   all,
		PeerDefault: peerLimit,
		ProtocolDefault: rcmgr.ResourceLimits{
			Streams: all.Streams, StreamsInbound: all.StreamsInbound, StreamsOutbound: all.StreamsOutbound, Memory: all.Memory},
		ServiceDefault: rcmgr.ResourceLimits{
			Streams: all.Streams, StreamsInbound: all.StreamsInbound, StreamsOutbound: all.StreamsOutbound, Memory: all.Memory},
	}
	// By default 8 connections come from one IPv4 address, and one in five seconds
	// after a burst of 16: a federation behind one NAT would not get in.
	subnets := []rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: conns}}
	subnets6 := []rcmgr.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: conns}}
	arrivals := &rate.Limiter{
		NetworkPrefixLimits: []rate.PrefixLimit{
			{Prefix: netip.MustParsePrefix("127.0.0.0/8")}, {Prefix: netip.MustParsePrefix("::1/128")}},
		SubnetRateLimiter: rate.SubnetLimiter{
			IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: rate.Limit{RPS: float64(conns) / 10, Burst: conns}}},
			IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 56, Limit: rate.Limit{RPS: float64(conns) / 10, Burst: conns}}},
			GracePeriod:      time.Minute,
		},
	}
	return rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(config.Build(rcmgr.DefaultLimits.AutoScale())),
		rcmgr.WithLimitPerSubnet(subnets, subnets6), rcmgr.WithConnRateLimiters(arrivals))
}

// connMemory is what a connection may take of the aggregator's memory for buffers:
// the window of the stream multiplexer, and room.
const connMemory = 32 << 20

// newLeaf makes the host of a client or of the server: it dials one peer, listens
// nowhere, and lets nobody else in.
func newLeaf(identity ed25519.PrivateKey, aggregator peer.ID) (host.Host, error) {
	few := rcmgr.ResourceLimits{Conns: 8, ConnsInbound: 8, ConnsOutbound: 8, Streams: 64, StreamsInbound: 64, StreamsOutbound: 64, FD: 16, Memory: 8 * connMemory}
	limits, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(
		rcmgr.PartialLimitConfig{System: few, Transient: few}.Build(rcmgr.DefaultLimits.AutoScale())))
	if err != nil {
		return nil, err
	}
	return newHost(identity, only(aggregator), limits, libp2p.NoListenAddrs)
}

func newHost(identity ed25519.PrivateKey, gate connmgr.ConnectionGater, limits network.ResourceManager, more ...libp2p.Option) (host.Host, error) {
	key, err := crypto.UnmarshalEd25519PrivateKey(identity)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	h, err := libp2p.New(append([]libp2p.Option{
		libp2p.Identity(key), libp2p.ConnectionGater(gate), libp2p.ResourceManager(limits),
		// Nothing is asked of strangers, and nothing offered to them.
		libp2p.DisableRelay(), libp2p.DisableMetrics(), libp2p.Ping(false), libp2p.UserAgent("fedsim"), libp2p.DisableIdentifyAddressDiscovery(),
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return h, nil
}
