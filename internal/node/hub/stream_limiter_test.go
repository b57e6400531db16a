package hub

import (
	"bytes"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// A peer that opens streams over and over waits, and no other peer does.
func TestVisitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := streamLimiter{}
		began := time.Now()
		for range 20 {
			if err := v.wait(t.Context(), "often"); err != nil {
				t.Fatal(err)
			}
		}
		// 8 at once, and then one a second.
		if took := time.Since(began); took != 12*time.Second {
			t.Errorf("20 visits of one peer took %v, want 12s", took)
		}
		began = time.Now()
		if err := v.wait(t.Context(), "once"); err != nil || time.Since(began) != 0 {
			t.Errorf("another peer waits %v, %v", time.Since(began), err)
		}
	})
}

// caller is a stream of a peer.
type caller struct {
	nodetest.Pipe
	peer peer.ID
}

func (c caller) Conn() network.Conn { return callerConn{peer: c.peer} }

type callerConn struct {
	network.Conn
	peer peer.ID
}

func (c callerConn) RemotePeer() peer.ID { return c.peer }

// Each stream that a peer opens counts, whatever is said on it.
func TestStreamsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Aggregator{ctx: t.Context()}
		began := time.Now()
		for range 9 { // one more than at once
			ours, _ := net.Pipe()
			a.handle(caller{nodetest.Pipe{End: ours}, "often"}, func(network.Stream, zerolog.Logger) error { return nil })
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("9 streams of one peer took %v, want 1s", took)
		}
	})
}

// A registered client that sends on and on is read at 20 messages a second after the first 40: a round is at most five
// messages. 100 messages take 3 s, and one client's pace is not another's.
func TestMessagesOfAPeerArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 100
		heard := make(chan protocol.Input, 2*messages)
		s := &hubSession{signed: new(session.Signed), terms: nodetest.Terms(), driver: &session.Driver{Inputs: heard}, ctx: t.Context()}
		a := &Aggregator{cfg: AggregatorConfig{Log: zerolog.Nop()}}
		frames, err := wire.AppendFrames(nil, &protocol.Advertise{Round: 1, Keys: &protocol.Keys{}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for client := range protocol.ClientID(2) {
			ours, theirs := net.Pipe()
			place := admission.ClientPlace(client)
			c := &conn{place: place, link: newLink(nodetest.Pipe{End: ours}, 1)}
			go func() { _ = a.carry(c, s, protocol.Party(place)) }()
			go func() {
				_, _ = theirs.Write(bytes.Repeat(frames, messages))
				_ = theirs.Close()
			}()
		}
		synctest.Wait()
		if n := len(heard); n != 2*40 {
			t.Errorf("%d messages of two clients are heard at once, want 80", n)
		}
		for range 2 * messages {
			<-heard
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("100 messages of a client took %v, want 3s", took)
		}
		a.busy.Wait()
	})
}
