package session

import (
	"context"

	"github.com/libp2p/go-libp2p/core/network"
)

// Notice is a control message, or why there are no more.
type Notice struct {
	Message *Message
	Err     error
}

// Notices hears notices until the notice after which messages follow.
func Notices(ctx context.Context, st network.Stream, most int) <-chan Notice {
	out := make(chan Notice)
	go func() {
		for {
			m, err := Hear(st, most)
			select {
			case out <- Notice{m, err}:
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

func Next(ctx context.Context, notices <-chan Notice) (*Message, error) {
	select {
	case s := <-notices:
		return s.Message, s.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
