package peer

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2pprotocol "github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/node/admission"
)

// The wrapping is as libp2p's swarm and package net have it.
func TestReasonOfAFailedDial(t *testing.T) {
	t.Parallel()
	syscalls := func(e syscall.Errno) error {
		return fmt.Errorf("failed to dial: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", e)})
	}
	for _, c := range []struct {
		protocol libp2pprotocol.ID
		err      error
		want     string // in the reason; "": no reason
	}{
		{ProtocolID, syscalls(syscall.EMFILE), "ulimit -n"},
		{ProtocolID, syscalls(syscall.ENFILE), "ulimit -n"},
		{ProtocolID, syscalls(syscall.ECONNREFUSED), "nothing listens"},
		{ProtocolID, fmt.Errorf("failed to dial: %w", context.DeadlineExceeded), "nothing answers in time"},
		{ProtocolID, syscalls(syscall.ETIMEDOUT), "nothing answers in time"},
		{ProtocolID, unmet(syscalls(syscall.ECONNRESET)), "before the handshake"},
		{ProtocolID, unmet(syscalls(syscall.EPIPE)), "before the handshake"},
		{EnrolID, errTurnedAway, "does not know this invitation"},
		{ProtocolID, errTurnedAway, "does not know this party"},
		{AlignID, errTurnedAway, "does not know this party"},
		{RelayID, errTurnedAway, "--relay "},
		{ProtocolID, errClosed, "no room"},
		{ProtocolID, &swarm.DialError{Cause: swarm.ErrNoGoodAddresses}, "DNS"},
		{ProtocolID, IgnoreEOF(&network.StreamError{ErrorCode: network.StreamSupplanted, Remote: true}), "another process"},
		{ProtocolID, IgnoreEOF(&network.StreamError{ErrorCode: network.StreamSupplanted}), ""},
		{ProtocolID, errors.New("anything else"), ""},
		{ProtocolID, nil, ""},
	} {
		l := &Conn{protocol: c.protocol}
		got := l.reason(c.err)
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s, %v: the reason is %q, want %q in it", c.protocol, c.err, got, c.want)
		}
	}
}

// A hub of another version, which has other protocols, is named as one.
func TestReasonOfAnotherVersion(t *testing.T) {
	t.Parallel()
	over := libp2p.Transport(tcp.NewTCPTransport)
	hub, err := NewHub(identity(1), []string{"/ip4/127.0.0.1/tcp/0"}, 4, anybody(), over)
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close() //nolint:errcheck // nothing is left to be lost
	l, err := dialling(t, t.Context(), peer.AddrInfo{ID: hub.ID(), Addrs: hub.Addrs()}, over)
	if got := l.reason(err); !strings.Contains(got, "another version") || !strings.Contains(got, string(ProtocolID)) {
		t.Errorf("%v: the reason is %q", err, got)
	}
}

// A trial of a connection says that there is one, or why there is none.
func TestTryingAConnection(t *testing.T) {
	t.Parallel()
	over := libp2p.Transport(tcp.NewTCPTransport)
	hub, err := NewHub(identity(1), []string{"/ip4/127.0.0.1/tcp/0"}, 4, anybody(), over)
	if err != nil {
		t.Fatal(err)
	}
	at := peer.AddrInfo{ID: hub.ID(), Addrs: hub.Addrs()}
	want := time.Time{} // it does not tell
	try := func() error {
		l := &Conn{protocol: ProtocolID, over: []libp2p.Option{over}, all: []peer.AddrInfo{at}}
		if l.identity, err = admission.GenerateKey(simulated.New(1, "party")); err != nil {
			t.Fatal(err)
		}
		var got time.Time
		if got, err = l.Try(t.Context()); err == nil && !got.Equal(want) {
			t.Errorf("the time is %v, want %v", got, want)
		}
		return err
	}
	if err = try(); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("without the protocol: %v", err)
	}
	hub.SetStreamHandler(ProtocolID, func(s network.Stream) { _ = s.Close() })
	if err = try(); err != nil {
		t.Error(err)
	}
	want = time.Date(2031, 5, 6, 7, 8, 0, 0, time.UTC)
	hub.SetStreamHandler(ClockID, func(s network.Stream) { TellTime(s, want.Add(59*time.Second)) })
	if err = try(); err != nil {
		t.Error(err)
	}
	if err = hub.Close(); err != nil {
		t.Fatal(err)
	}
	if err = try(); err == nil || !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("of a hub that is gone: %v", err)
	}
}

// dialling is a party that dials an address once.
func dialling(t *testing.T, ctx context.Context, hub peer.AddrInfo, o libp2p.Option) (*Conn, error) {
	t.Helper()
	h, err := newPeerHost(identity(100), []peer.ID{hub.ID}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	l := &Conn{protocol: ProtocolID, host: h, all: []peer.AddrInfo{hub}}
	h.Network().Notify(&network.NotifyBundle{ConnectedF: l.met})
	return l, l.once(ctx, func(context.Context, network.Stream) error { return nil })
}

// A party that the hub does not know, and a party with as many connections as one may have, hear why.
func TestReasonOfAClosedConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listen string
		over   libp2p.Option
	}{
		"TCP":  {"/ip4/127.0.0.1/tcp/0", libp2p.Transport(tcp.NewTCPTransport)},
		"QUIC": {"/ip4/127.0.0.1/udp/0/quic-v1", libp2p.Transport(quic.NewTransport)},
	} {
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, full %v", name, full), func(t *testing.T) {
				t.Parallel()
				gate, before, want := only(), 0, "does not know this party"
				if full {
					gate, before, want = anybody(), peerConns, "has no room for another connection"
				}
				heard := make(chan error, 16)
				gate.NoRoom = func(_ multiaddr.Multiaddr, err error) { heard <- err }
				hub, err := NewHub(identity(1), []string{c.listen}, 4, gate, c.over)
				if err != nil {
					t.Fatal(err)
				}
				defer hub.Close() //nolint:errcheck // nothing is left to be lost
				hub.SetStreamHandler(ProtocolID, func(s network.Stream) { _ = s.Close() })
				at := peer.AddrInfo{ID: hub.ID(), Addrs: hub.Addrs()}
				for range before {
					if _, err = dialling(t, t.Context(), at, c.over); err != nil {
						t.Fatal(err)
					}
				}
				var got string
				for range 20 { // over TCP a reset may overtake the code that says why
					l, err := dialling(t, t.Context(), at, c.over)
					if got = l.reason(err); strings.Contains(got, want) {
						break
					}
					if full || !errors.Is(err, errClosed) {
						t.Fatalf("%v: the reason is %q, want %q in it", err, got, want)
					}
				}
				if !strings.Contains(got, want) {
					t.Errorf("the reason is %q, want %q in it", got, want)
				}
				if full {
					if err := <-heard; err == nil { // the hub's owner, too
						t.Error("the owner of the hub hears of no refusal")
					}
				}
			})
		}
	}
}

// A port at which nothing listens, a listener that says nothing, and a listener that hangs up.
func TestReasonOfAnAddress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listens, hangsUp bool
		want             string
	}{
		"no listener": {false, false, "nothing listens"},
		"silent":      {true, false, "nothing answers in time"},
		"hangs up":    {true, true, "before the handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := testutil.Port(t) // which no listener of another test is given, so that nothing listens there
			li, err := net.Listen("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Fatal(err)
			}
			defer li.Close() //nolint:errcheck // nothing is left to be lost
			if !c.listens {
				_ = li.Close()
			}
			go func() {
				for {
					conn, closed := li.Accept()
					if closed != nil {
						return
					}
					if c.hangsUp {
						_ = conn.Close()
					} else {
						defer conn.Close() //nolint:errcheck // held until the listener ends
					}
				}
			}()
			ctx, cancel := context.WithCancel(t.Context())
			if c.listens && !c.hangsUp {
				ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			}
			defer cancel()
			id, err := IDOf(identity(1).Public().(ed25519.PublicKey))
			if err != nil {
				t.Fatal(err)
			}
			at := peer.AddrInfo{ID: id, Addrs: []multiaddr.Multiaddr{multiaddr.StringCast("/ip4/127.0.0.1/tcp/" + port)}}
			l, err := dialling(t, ctx, at, libp2p.Transport(tcp.NewTCPTransport))
			if got := l.reason(err); !strings.Contains(got, c.want) {
				t.Errorf("%v: the reason is %q, want %q in it", err, got, c.want)
			}
		})
	}
}
