// Package peer connects a party to others, whatever its role. It has the party's host and key, the limits of how often and how much others
// connect, and the connection to an aggregator or a relay. It queues messages to slow peers as bytes, and knows no message and no session.
package peer

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
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
)

// The protocol IDs of libp2p's streams.
const (
	// ProtocolID is for the stream between a peer and the aggregator.
	ProtocolID = "/fedsim/1.1.0"
	// ClockID is for a stream that says what time it is, in whole minutes since 1970.
	ClockID = "/fedsim/clock/1.0.0"
	// EnrolID is for the stream on which an invited party enrols.
	EnrolID = "/fedsim/enrol/1.0.0"
	// RelayID is for the stream between a relay and the aggregator.
	RelayID = "/fedsim/relay/1.0.0"
	// AlignID is for the stream on which rows of users are aligned. The aggregator carries sealed envelopes from one member to another, and
	// keeps none for who is not there: what is not acknowledged is sent again.
	AlignID = "/fedsim/align/1.0.0"
)

// Time limits of the network. The aggregator sets the time limits of stages.
const (
	// DialTimeout bounds the time in which a connection comes about.
	DialTimeout = 20 * time.Second
	// RegisterTimeout bounds each step of registering.
	RegisterTimeout = 30 * time.Second
	// RedialMax bounds the pause before a broken connection is dialled again. The pause doubles from redialMin, with jitter.
	RedialMax = 15 * time.Second
	redialMin = 250 * time.Millisecond
)

// Carried is the time that bytes take on a line that is just fast enough not to be cut.
func Carried(bytes int) time.Duration { return time.Duration(bytes) * time.Second / leastRate }

// IgnoreEOF is the error of a stream that was not simply closed.
func IgnoreEOF(err error) error {
	if supplanted(err) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, network.ErrReset) {
		return nil
	}
	return err
}

// EndWriting tells the peer that nothing follows. If the peer has reset the stream, libp2p returns
// the muxer's own error. EndWriting returns the error that a reset gives elsewhere.
func EndWriting(s network.Stream) error {
	if err := s.CloseWrite(); err != nil {
		return fmt.Errorf("%w: %w", network.ErrReset, err)
	}
	return nil
}

// Within gives a step of registering its time.
func Within(s network.Stream, d time.Duration) {
	_ = s.SetDeadline(time.Now().Add(d)) // a stream that takes none fails when it is used
}

// Limits of a slow line. A line is not cut as long as it carries leastRate.
const (
	// leastRate is the bytes a second that a stream carries at least. Each byte that moves earns its
	// share of a second, so that a peer that takes a byte now and then holds a stream no longer.
	leastRate = 4 << 10
	// window is the most bytes of a stream that are on their way at a time. A multiplexer shows that
	// bytes have moved when a half of them has, and what it asks a peer to confirm waits behind them.
	window = 512 << 10
	// Patience is the time that a whole window takes at leastRate. A stream on which less moves is given up.
	Patience = window / leastRate * time.Second
)

// Steady makes the deadlines of a stream go by what moves. A deadline that was set for so much time
// from now is put off by 1 s for every leastRate bytes, to at most as much time from then. A stream that
// carries leastRate never meets its deadline. A stream that stands still meets it when it is due.
func Steady(s network.Stream) network.Stream { return &steady{Stream: s} }

type steady struct {
	network.Stream
	in, out allowance
}

func (s *steady) SetReadDeadline(t time.Time) error {
	return s.in.set(t, s.Stream.SetReadDeadline)
}

func (s *steady) SetWriteDeadline(t time.Time) error {
	return s.out.set(t, s.Stream.SetWriteDeadline)
}

func (s *steady) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (s *steady) Read(b []byte) (int, error) {
	for {
		n, err := s.Stream.Read(b)
		s.in.moved(n)
		if n > 0 || !expired(err) || !s.in.renew(s.Stream.SetReadDeadline) {
			return n, err
		}
	}
}

func (s *steady) Write(b []byte) (int, error) {
	written := 0
	for {
		n, err := s.Stream.Write(b[written:])
		written += n
		s.out.moved(n)
		if !expired(err) || !s.out.renew(s.Stream.SetWriteDeadline) {
			return written, err
		}
	}
}

func expired(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// allowance is the time that one direction of a stream has.
type allowance struct {
	mu    sync.Mutex
	span  time.Duration // for which the deadline was set; 0: there is none
	until time.Time
}

// set takes a deadline as a stream's user sets it.
func (a *allowance) set(t time.Time, set func(time.Time) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until, a.span = t, 0
	if !t.IsZero() {
		a.span = max(time.Until(t), 0)
	}
	return set(t)
}

// moved puts the deadline off.
func (a *allowance) moved(n int) {
	if n == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.span > 0 {
		a.until = slices.MinFunc([]time.Time{a.until.Add(Carried(n)), time.Now().Add(a.span)}, time.Time.Compare)
	}
}

// renew sets the next deadline of a stream whose deadline has passed. It is false if the next one is over, too.
func (a *allowance) renew(set func(time.Time) error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.span > 0 && time.Now().Before(a.until) && set(a.until) == nil
}

// NewHub makes the host that every other peer dials. The defaults of libp2p are for a node among many equals. They break a hub that the
// whole federation dials; each setting here replaces one of them.
func NewHub(identity ed25519.PrivateKey, listen []string, peers int, gate *AllowList, over ...libp2p.Option) (host.Host, error) {
	if len(over) == 0 {
		if err := free(listen); err != nil {
			return nil, err
		}
	}
	r := roomFor(peers)
	door, err := newConnLimiter(r, gate)
	if err != nil {
		return nil, err
	}
	trim, err := r.trim()
	if err != nil {
		return nil, err
	}
	h, err := newHost(identity, gate, door, append(secured(over), libp2p.ListenAddrStrings(listen...), libp2p.ConnectionManager(trim))...)
	if err != nil {
		return nil, err
	}
	if err = listenAll(h.Network(), listen); err != nil {
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
	// By default a peer has 10 s to confirm that it is there, and a window grows to 16 MiB, behind which that
	// waits: a line that is full is taken for a dead one.
	slow := *yamux.DefaultTransport.Config()
	slow.ConnectionWriteTimeout, slow.MaxStreamWindowSize = Patience, window
	h, err := libp2p.New(append([]libp2p.Option{
		libp2p.Identity(key), libp2p.ConnectionGater(gate), libp2p.ResourceManager(limits),
		libp2p.Muxer(yamux.ID, (*yamux.Transport)(&slow)),
		// Nothing is asked of strangers, and nothing offered to them.
		libp2p.DisableRelay(), libp2p.DisableMetrics(), libp2p.Ping(false), libp2p.UserAgent("fedsim"), libp2p.DisableIdentifyAddressDiscovery(),
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return h, nil
}
