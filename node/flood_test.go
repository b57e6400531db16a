package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// flood are strangers at the aggregator's door.
type flood struct {
	f      *federation
	mu     sync.Mutex
	silent []net.Conn
	reset  int // of the silent strangers, how many gave way before they knew that they were in
	made   int
}

// come has n strangers dial. Half of them say who they are; the others say nothing and hold their
// connections. It returns when the first half has been let down.
func (s *flood) come(n int) {
	var all sync.WaitGroup
	for range n / 2 {
		s.made++
		name := fmt.Sprintf("stranger %d", s.made)
		all.Go(func() {
			if s.handshake(name) {
				s.f.t.Errorf("%s was given a stream", name)
			}
		})
		all.Go(s.hold)
	}
	all.Wait()
}

// hold dials and says nothing.
func (s *flood) hold() {
	address, err := manet.ToNetAddr(s.f.hub.Addrs[0])
	if err != nil {
		s.f.t.Error(err)
		return
	}
	c, err := net.Dial(address.Network(), address.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.silent = append(s.silent, c)
	case errors.Is(err, syscall.ECONNRESET):
		s.reset++
	default:
		s.f.t.Error(err) // the listener accepts every connection, for a moment at least
	}
}

// handshake dials as libp2p does, and says whether a stream can be used then.
func (s *flood) handshake(name string) bool {
	ctx, cancel := context.WithTimeout(s.f.t.Context(), 20*time.Second)
	defer cancel()
	key, err := crypto.UnmarshalEd25519PrivateKey(s.f.key(name).Ed25519())
	if err != nil {
		s.f.t.Error(err)
		return false
	}
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	secure, err := libp2ptls.New(libp2ptls.ID, key, muxers)
	if err != nil {
		s.f.t.Error(err)
		return false
	}
	u, err := upgrader.New([]sec.SecureTransport{secure}, muxers, nil, nil, nil)
	if err != nil {
		s.f.t.Error(err)
		return false
	}
	transport, err := tcp.NewTCPTransport(u, nil, nil)
	if err != nil {
		s.f.t.Error(err)
		return false
	}
	hub := s.f.hub
	c, err := transport.Dial(ctx, hub.Addrs[0], hub.ID)
	if err != nil {
		return false
	}
	defer c.Close() //nolint:errcheck // nothing is left to be lost
	stream, err := c.OpenStream(ctx)
	if err != nil {
		return false
	}
	_ = stream.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = stream.Write([]byte("\x13/multistream/1.0.0\n"))
	n, _ := stream.Read(make([]byte, 1)) // what multistream answers, or the end
	return n > 0
}

func (s *flood) leave() {
	for _, c := range s.silent {
		_ = c.Close()
	}
}

// 700 strangers dial during a session of five rounds: no client is lost, no round skipped,
// no stranger let in. The silent strangers have no more connections than there is room for.
func TestStrangersDuringASession(t *testing.T) {
	f := newLoopbackFederation(t, long+"rounds=5 data="+ratings(t, 4, 12))
	s := &flood{f: f}
	defer s.leave()
	var coming sync.WaitGroup
	most := 0
	f.watch = func(e protocol.Event) {
		switch e.Kind {
		case protocol.RoundOpened:
			coming.Go(func() { s.come(140) })
		case protocol.RoundSummed:
			coming.Wait() // so that they come in every round
			most = max(most, f.unknown())
		case protocol.ClientLost:
			t.Errorf("%s was lost from round %d", e.Party, e.Round)
		default:
		}
	}
	out := f.run()
	if out.Attempts.Opened != 5 || out.Attempts.Released != 5 {
		t.Errorf("attempts %+v, want 5 of 5", out.Attempts)
	}
	if silent := len(s.silent) + s.reset; s.made != 350 || silent != 350 {
		t.Errorf("%d strangers shook hands and %d did not, want 350 each", s.made, silent)
	}
	// Four times as many as parties may have: two for each, and 64 more.
	if room := 4 * (2*(f.federation.Clients+1) + 64); most == 0 || most > room {
		t.Errorf("%d strangers who said nothing had a connection at a time, want some and at most %d", most, room)
	}
	for _, id := range f.aggregator.Host().Network().Peers() {
		if !slices.ContainsFunc(f.peers(), func(enrolled peer.ID) bool { return enrolled == id }) {
			t.Errorf("the aggregator has a connection of %s, who is not enrolled", id)
		}
	}
}

// unknown counts the aggregator's connections whose peers are not known yet.
func (f *federation) unknown() (n int) {
	_ = f.aggregator.Host().Network().ResourceManager().ViewTransient(func(s network.ResourceScope) error {
		n = s.Stat().NumConnsInbound
		return nil
	})
	return n
}

// peers lists the peers of all identities.
func (f *federation) peers() (list []peer.ID) {
	f.t.Helper()
	for _, k := range f.identities {
		id, err := peer.IDOf(k.Public().Ed25519())
		if err != nil {
			f.t.Fatal(err)
		}
		list = append(list, id)
	}
	return list
}

// presence is a node.Observer that counts registrations.
type presence struct {
	observer
	registered atomic.Int32
	first      chan struct{} // closed with the first
}

func (p *presence) Registered(change int) {
	if change > 0 && p.registered.Add(1) == 1 {
		close(p.first)
	}
}

// failures is a log that hears how often there was no connection.
type failures chan struct{}

func (f failures) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("no connection to the aggregator")) {
		select {
		case f <- struct{}{}:
		default:
		}
	}
	return len(b), nil
}

// Over QUIC, dialling succeeds for every peer. A client is registered when the aggregator has said
// so, and then it is: its connection is kept when others are trimmed.
func TestRegistrationIsTheAggregatorsWord(t *testing.T) {
	f := newLoopbackFederation(t, lfl+"data="+ratings(t, 4, 12))
	if err := f.aggregator.Close(); err != nil {
		t.Fatal(err)
	}
	f.startAggregator([]string{"/ip4/127.0.0.1/udp/0/quic-v1"})
	f.contact.Addresses = f.aggregator.Addresses()
	for _, c := range []struct {
		id       protocol.ClientID
		enrolled bool
	}{{1, false}, {2, true}} {
		place := admission.ClientPlace(c.id)
		i := f.invite(place, time.Now().Add(time.Hour))
		m, err := i.Accept(f.identity(place))
		if err != nil {
			t.Fatal(err)
		}
		if c.enrolled {
			m = f.join(place)
		}
		ledger, err := store.NewLedger(store.NewMemoryLog())
		if err != nil {
			t.Fatal(err)
		}
		seen, failed := &presence{first: make(chan struct{})}, make(failures, 2)
		client, err := node.NewClient(node.ClientConfig{Member: node.Member{Identity: f.identity(place), Membership: m, Registry: f.openRegistry(),
			Log: zerolog.New(failed), Workers: 1, Observer: seen}, Ledger: ledger, Entropy: f.source(c.id),
			Open: func(text []byte) (*node.Job, error) { return f.job(c.id, text) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = client.Run(ctx) // ends with the context
		}()
		id, err := peer.IDOf(f.identity(place).Public().Ed25519())
		if err != nil {
			t.Fatal(err)
		}
		if c.enrolled {
			<-seen.first
			h := f.aggregator.Host()
			if !h.ConnManager().IsProtected(id, "registered") || !slices.Contains(h.Network().Peers(), id) {
				t.Error("a client that believes to be registered is not")
			}
		} else {
			<-failed
			<-failed
			if n := seen.registered.Load(); n != 0 {
				t.Errorf("a client that is not enrolled believed %d times to be registered", n)
			}
		}
		stop()
		<-ended
	}
}
