package peer

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/node/admission"
)

// CheckContact says why no party can dial an aggregator or a relay with this contact. It refuses
// a contact of which one address can never work.
func CheckContact(c admission.Contact) error {
	info, err := dialled(c)
	if err != nil {
		return err
	}
	for _, a := range info.Addrs {
		if err := diallable(a); err != nil {
			return fmt.Errorf("the address %s: %w", a, err)
		}
	}
	return nil
}

// diallable says why an address can never be dialled.
func diallable(a multiaddr.Multiaddr) error {
	if _, err := a.ValueForProtocol(multiaddr.P_CIRCUIT); err == nil {
		return errors.New("circuits of libp2p are not used; name a relay of fednode with --relay, or the aggregator's own address")
	}
	if _, err := a.ValueForProtocol(multiaddr.P_DNSADDR); err == nil {
		return nil // a TXT record has the port
	}
	var zone, host, port, quic bool
	for _, c := range a {
		switch c.Protocol().Code {
		case multiaddr.P_IP6ZONE:
			zone = true
		case multiaddr.P_IP4, multiaddr.P_IP6:
			host = true
			switch ip := net.IP(c.RawValue()); {
			case ip.IsUnspecified(), ip.IsMulticast(), ip.Equal(net.IPv4bcast):
				return errors.New("this names all addresses of a machine or a group of machines; it is for listening. Name the address that clients reach")
			case ip.To4() == nil && ip.IsLinkLocalUnicast() && !zone:
				return errors.New("an IPv6 address that begins with fe80 needs its interface; begin it with /ip6zone/eth0, or name another address")
			}
		case multiaddr.P_DNS, multiaddr.P_DNS4, multiaddr.P_DNS6:
			host = true
		case multiaddr.P_TCP:
			port, quic = c.Value() != "0", true
		case multiaddr.P_UDP:
			port = c.Value() != "0"
		case multiaddr.P_QUIC_V1:
			quic = true
		}
	}
	switch {
	case !host:
		return errors.New("it names no machine; begin it with /ip4/, /ip6/, /dns4/, /dns6/ or /dns/")
	case !port:
		return errors.New("it names no port; end it in /tcp/PORT or /udp/PORT/quic-v1, like /dns4/agg.example.org/tcp/7946")
	case !quic:
		return errors.New("UDP is dialled with QUIC only; end it in /quic-v1")
	}
	return nil
}

// ErrListen says that an aggregator or a relay cannot listen at an address.
var ErrListen = errors.New("node: cannot listen")

// ErrInUse says that another process listens at an address.
var ErrInUse = errors.New("another process listens there")

// free refuses addresses at which another process listens. libp2p would share a port with it, and each would get some of the connections.
func free(listen []string) error {
	for _, s := range listen {
		a, err := ParseAddress(s)
		if err != nil {
			return fmt.Errorf("%w at %q: %w", ErrListen, s, err)
		}
		transport, _ := multiaddr.SplitFunc(a, func(c multiaddr.Component) bool { return c.Protocol().Code == multiaddr.P_QUIC_V1 })
		var l io.Closer
		if overTCP(a) {
			l, err = manet.Listen(transport)
		} else {
			l, err = manet.ListenPacket(transport)
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("%w at %s: %w", ErrListen, s, ErrInUse)
		}
		if err == nil {
			_ = l.Close() // no peer was told of it
		}
	}
	return nil
}

// listenAll has a host listen at every address: libp2p begins where it can, and says nothing of
// the other addresses.
func listenAll(n network.Network, listen []string) error {
	if len(n.ListenAddresses()) >= len(listen) {
		return nil
	}
	for _, s := range listen {
		a, err := multiaddr.NewMultiaddr(s)
		if err != nil {
			return fmt.Errorf("%w at %q: %w", ErrListen, s, err)
		}
		if multiaddr.Contains(n.ListenAddresses(), a) {
			continue
		}
		if err = n.Listen(a); err != nil && !withoutIPv6(a) {
			return fmt.Errorf("%w at %s: %w", ErrListen, s, err)
		}
	}
	return nil
}

// withoutIPv6 says that an address is all of IPv6, on a machine that has no IPv6.
func withoutIPv6(a multiaddr.Multiaddr) bool {
	if _, err := a.ValueForProtocol(multiaddr.P_IP6); err != nil || !manet.IsIPUnspecified(a) {
		return false
	}
	l, err := net.ListenPacket("udp6", "[::]:0")
	if err != nil {
		return true
	}
	_ = l.Close() // nothing was sent
	return false
}

func dialled(c admission.Contact) (peer.AddrInfo, error) {
	id, err := peer.Decode(c.Peer)
	if err != nil {
		return peer.AddrInfo{}, fmt.Errorf("the aggregator's peer ID %q: %w", c.Peer, err)
	}
	info := peer.AddrInfo{ID: id}
	for _, s := range c.Addresses {
		a, err := ParseAddress(s)
		if err != nil {
			return peer.AddrInfo{}, fmt.Errorf("the aggregator's address: %w", err)
		}
		transport, named := peer.SplitAddr(a)
		if named != "" && named != id {
			return peer.AddrInfo{}, fmt.Errorf("the aggregator's address %q names another peer than %s", s, id)
		}
		info.Addrs = append(info.Addrs, transport)
	}
	return info, nil
}

// ParseContacts reads addresses that end in /p2p/ and the name of a peer, as a relay and the
// aggregator print them. Consecutive addresses of one peer become one contact, which [CheckContact] checks.
func ParseContacts(addresses []string) ([]admission.Contact, error) {
	var out []admission.Contact
	for _, s := range addresses {
		a, err := ParseAddress(s)
		if err != nil {
			return nil, err
		}
		transport, id := peer.SplitAddr(a)
		if id == "" || len(transport) == 0 {
			return nil, fmt.Errorf("the address %q must end in /p2p/ and the peer's name, and say where that is before it", s)
		}
		if n := len(out); n > 0 && out[n-1].Peer == id.String() {
			out[n-1].Addresses = append(out[n-1].Addresses, transport.String())
		} else {
			out = append(out, admission.Contact{Addresses: []string{transport.String()}, Peer: id.String()})
		}
	}
	return out, errors.Join(lists.Map(out, CheckContact)...)
}

// ID is the name of a peer, which its identity key determines.
type ID = peer.ID

// IDOf is the libp2p peer ID of an identity key.
func IDOf(public ed25519.PublicKey) (peer.ID, error) {
	k, err := crypto.UnmarshalEd25519PublicKey(public)
	if err != nil {
		return "", fmt.Errorf("node: %w", err)
	}
	return peer.IDFromPublicKey(k)
}

// KeyOf is the identity key that a peer's name stands for.
func KeyOf(id peer.ID) (admission.PublicKey, error) {
	k, err := id.ExtractPublicKey()
	var raw []byte
	if err == nil {
		raw, err = k.Raw()
	}
	if err != nil {
		return admission.PublicKey{}, fmt.Errorf("node: %w", err)
	}
	return admission.NewPublicKey(raw)
}

// ContactKey is the identity key of the aggregator that a contact names.
func ContactKey(c admission.Contact) (admission.PublicKey, error) {
	id, err := peer.Decode(c.Peer)
	if err != nil {
		return admission.PublicKey{}, fmt.Errorf("the aggregator's peer ID %q: %w", c.Peer, err)
	}
	return KeyOf(id)
}

// ParseAddress reads a multiaddress such as /ip4/192.0.2.1/tcp/7946. The error of an address in another form, such as
// 192.0.2.1:7946, has the address in this form.
func ParseAddress(text string) (multiaddr.Multiaddr, error) {
	a, err := multiaddr.NewMultiaddr(text)
	if err == nil {
		return a, nil
	}
	if strings.HasPrefix(text, "/") {
		return nil, err // which says what part is wrong
	}
	return nil, fmt.Errorf("%q is no multiaddress; write %s", text, meant(text))
}

// meant returns the multiaddress that a text such as HOST:PORT or http://HOST:PORT may mean.
func meant(text string) string {
	if _, after, found := strings.Cut(text, "://"); found {
		text = strings.TrimRight(after, "/")
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || port == "" {
		return "it like /ip4/192.0.2.1/tcp/7946 or /dns4/agg.example.org/tcp/7946"
	}
	kind := "dns4"
	switch ip, err := netip.ParseAddr(host); {
	case host == "":
		kind, host = "ip4", "0.0.0.0"
	case err == nil && ip.Is4():
		kind = "ip4"
	case err == nil:
		kind = "ip6"
	}
	return fmt.Sprintf("/%s/%s/tcp/%s", kind, host, port)
}

// AllowList lets peers connect that an allowing function names. It is asked once the
// transport has proved who the peer is: before that there is nothing to judge by.
type AllowList struct {
	Allow func(peer.ID) bool
	// TurnedAway, if set, hears of each connection of a peer that is not allowed.
	TurnedAway func(network.Conn)
	// NoRoom, if set, hears of each connection for which there is no room.
	NoRoom func(from multiaddr.Multiaddr, err error)

	door *connLimiter // of a hub; nil: its host accepts no connection
}

// only is the gate that lets some peers pass.
func only(peers ...peer.ID) *AllowList {
	return &AllowList{Allow: func(p peer.ID) bool { return slices.Contains(peers, p) }}
}

func (g *AllowList) InterceptPeerDial(p peer.ID) bool { return g.Allow(p) }

func (g *AllowList) InterceptAddrDial(p peer.ID, _ multiaddr.Multiaddr) bool { return g.Allow(p) }

// InterceptAccept lets every connection begin: the peer is not known before the handshake. Over TCP the listener asks it before
// it asks the resource manager, about the connection itself, which the limiter can close from then on.
func (g *AllowList) InterceptAccept(c network.ConnMultiaddrs) bool {
	if closer, ok := c.(io.Closer); ok && g.door != nil && overTCP(c.RemoteMultiaddr()) {
		locked.Do(&g.door.mu, func() { g.door.doors[c.RemoteMultiaddr().String()] = closer })
	}
	return true
}

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
