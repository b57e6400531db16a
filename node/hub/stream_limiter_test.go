package hub

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/fedsim/fedsim/node/internal/nodetest"
	"github.com/fedsim/fedsim/node/peer"
)

// A peer that opens streams over and over waits, and no other peer does.
func TestVisitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := streamLimiter{limits: make(map[peer.ID]*rate.Limiter)}
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
		a := &Aggregator{ctx: t.Context(), streams: streamLimiter{limits: make(map[peer.ID]*rate.Limiter)}}
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
