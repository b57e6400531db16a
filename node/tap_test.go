package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	libp2ppeer "github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// tap stands between the aggregator and every party that dials it. It holds the keys of all of
// them, as only a test can, so that each takes it for the other. So messages can be seen, held,
// changed, left out and added, one by one. Parties need no hooks for it, and may be processes.
type tap struct {
	t     testing.TB
	front host.Host
	hub   libp2ppeer.AddrInfo
	// holder returns a peer's party, with its key; false for an unknown peer.
	holder func(peer.ID) (party, bool)
	over   []libp2p.Option // other transports; nil: TCP

	mu    sync.Mutex
	rules []func(*passing)
	busy  sync.WaitGroup
	ctx   context.Context
	stop  context.CancelFunc
}

// party is an identity with what it is called.
type party struct {
	place admission.Place
	key   admission.PrivateKey
}

// passing is one thing that a party and its aggregator say. Rules see them in the
// order of a direction of a stream, one at a time, and may wait: what is behind waits
// too.
type passing struct {
	place   admission.Place
	on      *pipe                      // the stream
	up      bool                       // from the party
	notice  map[string]json.RawMessage // while it registers,
	message protocol.Message           // or from then on
	raw     []byte                     // what is passed on; a rule may change it
	cut     bool                       // nothing is passed on any more, and the stream ends
	ctx     context.Context            // ends with the stream
	inject  func(up bool, raw []byte)  // says something besides, in either direction
}

func (p *passing) kind() protocol.Kind {
	if p.message == nil {
		return protocol.Kinds
	}
	return p.message.Kind()
}

// round returns the round of a message; 0 if it has none.
func (p *passing) round() uint64 {
	switch m := p.message.(type) {
	case protocol.StageMessage:
		i, _ := m.At()
		return i
	case *protocol.Open:
		return m.Plan.Round
	case *protocol.Announce:
		return m.Plan.Round
	case *protocol.Roster:
		return m.Round
	case *protocol.Delivery:
		return m.Round
	case *protocol.Proceed:
		return m.Round
	case *protocol.Survivors:
		return m.Round
	case *protocol.Quorum:
		return m.Round
	case *protocol.Result:
		return m.Round
	case *protocol.Abort:
		return m.Round
	}
	return 0
}

// said says whether it is a notice of a kind, as in control_message.go.
func (p *passing) said(key string) bool { _, ok := p.notice[key]; return ok }

// newTap opens a tap before the hub. Rules are added before any party dials.
func newTap(t testing.TB, aggregator admission.PrivateKey, hub libp2ppeer.AddrInfo, holder func(peer.ID) (party, bool), over ...libp2p.Option) *tap {
	t.Helper()
	key, err := crypto.UnmarshalEd25519PrivateKey(aggregator.Ed25519())
	if err != nil {
		t.Fatal(err)
	}
	front, err := libp2p.New(append([]libp2p.Option{libp2p.Identity(key), libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableRelay(),
		libp2p.ResourceManager(&network.NullResourceManager{}),
		// Parties would be told of it, and could go round a line that fails.
		libp2p.AddrsFactory(func([]multiaddr.Multiaddr) []multiaddr.Multiaddr { return nil })}, over...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	x := &tap{t: t, front: front, hub: hub, holder: holder, over: over, ctx: ctx, stop: stop}
	front.SetStreamHandler(peer.ProtocolID, x.handle)
	front.SetStreamHandler(peer.EnrolID, x.handle)
	t.Cleanup(func() {
		stop()
		_ = front.Close()
		x.busy.Wait()
	})
	return x
}

// address is where parties dial, in place of the aggregator.
func (x *tap) address() string { return x.front.Network().ListenAddresses()[0].String() }

// rule adds a rule.
func (x *tap) rule(f func(*passing)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rules = append(x.rules, f)
}

func (x *tap) judge(p *passing) {
	x.mu.Lock()
	rules := x.rules
	x.mu.Unlock()
	for _, f := range rules {
		f(p)
	}
}

func (x *tap) handle(s network.Stream) {
	x.busy.Add(1)
	defer x.busy.Done()
	defer s.Reset() //nolint:errcheck // it has ended, or is to
	who, ok := x.holder(s.Conn().RemotePeer())
	if !ok {
		return
	}
	key, err := crypto.UnmarshalEd25519PrivateKey(who.key.Ed25519())
	if err != nil {
		return
	}
	back, err := libp2p.New(append([]libp2p.Option{libp2p.Identity(key), libp2p.NoListenAddrs, libp2p.DisableRelay()}, x.over...)...)
	if err != nil {
		return
	}
	defer back.Close() //nolint:errcheck // nothing is left to be lost
	ctx, stop := context.WithCancel(x.ctx)
	defer stop()
	if err = back.Connect(ctx, x.hub); err != nil {
		return
	}
	hub, err := back.NewStream(ctx, x.hub.ID, s.Protocol())
	if err != nil {
		return
	}
	defer hub.Reset() //nolint:errcheck // it has ended, or is to
	end := context.AfterFunc(ctx, func() { _, _ = s.Reset(), hub.Reset() })
	defer end()
	pipe := &pipe{tap: x, ctx: ctx, place: who.place}
	pipe.to[0].Stream, pipe.to[1].Stream = s, hub
	var both sync.WaitGroup
	for _, up := range []bool{false, true} {
		both.Go(func() {
			if pipe.pump(up) != nil {
				stop() // else the other direction continues to its own end
			}
		})
	}
	both.Wait()
}

// pipe is one party's stream.
type pipe struct {
	tap   *tap
	ctx   context.Context
	place admission.Place
	to    [2]struct { // the party, the hub
		mu sync.Mutex
		network.Stream
	}
}

func side(up bool) int {
	if up {
		return 1
	}
	return 0
}

func (p *pipe) write(up bool, raw []byte) error {
	to := &p.to[side(up)]
	to.mu.Lock()
	defer to.mu.Unlock()
	_, err := to.Write(raw)
	return err
}

var errCut = errors.New("cut by a rule")

// pump carries one direction; nil at its proper end.
func (p *pipe) pump(up bool) error {
	from := p.to[side(!up)].Stream
	frames := wire.NewReader(from, anything)
	for registering := true; ; {
		x := &passing{place: p.place, on: p, up: up, ctx: p.ctx, inject: func(up bool, raw []byte) { _ = p.write(up, raw) }}
		var err error
		if registering {
			x.raw, x.notice, err = readNotice(from)
			registering = !x.said("session") && !x.said("ready") && !x.said("publish")
		} else if x.message, err = frames.Read(); err == nil {
			x.raw, err = wire.AppendFrames(nil, x.message)
		}
		if errors.Is(err, io.EOF) {
			return p.to[side(up)].CloseWrite()
		}
		if err != nil {
			return err
		}
		p.tap.judge(x)
		if x.cut {
			return errCut
		}
		if err = p.write(up, x.raw); err != nil {
			return err
		}
	}
}

// anything is more than any session of a test allows.
var anything = func() wire.Limits {
	l := wire.Limits{Clients: 64, Neighbours: 64, Releases: 8}
	for k := range l.Bytes {
		l.Bytes[k] = 1 << 20
	}
	return l
}()

// readNotice reads what is said before messages are, as control_message.go has it.
func readNotice(r io.Reader) (raw []byte, n map[string]json.RawMessage, err error) {
	var head [4]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	b.Write(head[:])
	if _, err = io.CopyN(&b, r, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
		return nil, nil, err
	}
	err = json.Unmarshal(b.Bytes()[4:], &n)
	return b.Bytes(), n, err
}

// framed is a notice's bytes.
func framed(t testing.TB, n any) []byte {
	t.Helper()
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// settled is closed when the aggregator has taken in that a client is back: when it has
// ignored what is slipped in behind the client's second word that it takes part.
func (f *federation) settled(x *tap, who admission.Place) <-chan struct{} {
	f.t.Helper()
	stale, err := wire.AppendFrames(nil, &protocol.Consistency{Round: 1, Signature: make([]byte, 64)})
	if err != nil {
		f.t.Fatal(err)
	}
	back, said := make(chan struct{}), 0
	x.rule(func(p *passing) {
		if p.place == who && p.up && p.said("ready") {
			if said++; said == 2 {
				p.raw = append(p.raw, stale...)
			}
		}
	})
	var once sync.Once
	f.watch = func(e protocol.Event) {
		if e.Kind == protocol.MessageIgnored && e.Party == protocol.Party(who) {
			once.Do(func() { close(back) })
		}
	}
	return back
}
