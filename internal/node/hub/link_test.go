package hub

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"

	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/node/admission"
)

// unread is a stream whose peer reads nothing: a reset is not written until the peer's connection has failed.
type unread struct {
	nodetest.Pipe
	failed chan struct{}
	why    *network.StreamErrorCode // of the reset
}

func (u unread) ResetWithError(why network.StreamErrorCode) error {
	*u.why = why
	<-u.failed
	return u.Pipe.ResetWithError(why)
}

func (unread) Conn() network.Conn { return somewhere{} }

// somewhere is a connection with an address alone.
type somewhere struct{ network.Conn }

func (somewhere) RemoteMultiaddr() multiaddr.Multiaddr {
	return multiaddr.StringCast("/ip4/192.0.2.1/tcp/4001")
}

// A peer that reads nothing holds up no other. Its connection is closed in favour of a newer one, and the aggregator
// continues at once. The handler of the old one ends when the reason is written.
func TestAggregatorWaitsForNoReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t, 3)
		place := admission.ClientPlace(1)
		ours, _ := net.Pipe()
		old := unread{nodetest.Pipe{End: ours}, make(chan struct{}), new(network.StreamErrorCode)}
		c := &conn{place: place, link: newLink(old, peer.QueueSize), life: [16]byte{1}, presence: make(chan struct{}, 1)}
		d.a.enter(c)
		entered, left := false, false
		go func() {
			d.a.enter(&conn{place: place, link: newLink(nil, peer.QueueSize), life: [16]byte{2}, presence: make(chan struct{}, 1)})
			entered = true
		}()
		synctest.Wait()
		if !entered || *old.why != network.StreamSupplanted {
			t.Errorf("the newer connection has entered: %v, and the older one is closed for reason %d; want true and %d", entered, *old.why, network.StreamSupplanted)
			close(old.failed)
			return
		}
		go func() {
			d.a.leave(c)
			left = true
		}()
		synctest.Wait()
		if left {
			t.Error("the handler of the older connection ends before the reason is written")
		}
		close(old.failed)
		synctest.Wait()
		if !left {
			t.Error("the handler of the older connection does not end")
		}
	})
}
