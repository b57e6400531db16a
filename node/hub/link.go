package hub

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/node/peer"
)

// link is a peer's stream, and what waits to be written to it.
type link struct {
	stream network.Stream // nil: the peer is connected to a relay
	queue  *peer.Queue
	closed chan struct{}
	once   sync.Once
	resets sync.WaitGroup
}

func newLink(s network.Stream, size int) link {
	return link{stream: s, queue: peer.NewQueue(size), closed: make(chan struct{})}
}

func (l *link) close() { l.closeWith(network.StreamNoError) }

// closeWith closes the link and tells the peer a reason. It does not wait for the peer: a reset stands behind what a
// peer that reads nothing has not taken, and the caller may hold mu.
func (l *link) closeWith(why network.StreamErrorCode) {
	l.once.Do(func() {
		close(l.closed)
		if l.stream != nil {
			l.resets.Go(func() { _ = l.stream.ResetWithError(why) }) // the stream's reader and writer end with it
		}
	})
}

// finish closes a link whose stream has ended properly on both sides; a reset would overtake
// that end.
func (l *link) finish() { l.once.Do(func() { close(l.closed) }) }
