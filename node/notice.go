package node

import (
	"context"

	"github.com/libp2p/go-libp2p/core/network"
)

// notice is a control message, or why there are no more.
type notice struct {
	message *controlMessage
	err     error
}

// listen hears notices until the one after which messages follow.
func listen(ctx context.Context, st network.Stream, most int) <-chan notice {
	out := make(chan notice)
	go func() {
		for {
			m, err := hear(st, most)
			select {
			case out <- notice{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || m.Ready != nil {
				return
			}
		}
	}()
	return out
}

func next(ctx context.Context, notices <-chan notice) (*controlMessage, error) {
	select {
	case s := <-notices:
		return s.message, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
