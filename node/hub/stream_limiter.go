package hub

import (
	"context"
	"sync"

	"golang.org/x/time/rate"

	"github.com/fedsim/fedsim/node/peer"
)

// streamLimiter bounds how often a peer opens a stream: enrolling has signatures verified, and
// registering may be answered with the whole list. It has at most one entry for each enrolled or
// invited peer, since no other peer gets as far.
type streamLimiter struct {
	mu     sync.Mutex
	limits map[peer.ID]*rate.Limiter
}

// How often a peer may open a stream; a peer pauses longer once it has failed some times.
const (
	streamsPerSecond = 1
	streamsAtOnce    = 8
)

// wait returns when it is a peer's turn, or with an error when the context ends.
func (v *streamLimiter) wait(ctx context.Context, id peer.ID) error {
	v.mu.Lock()
	l := v.limits[id]
	if l == nil {
		l = rate.NewLimiter(streamsPerSecond, streamsAtOnce)
		v.limits[id] = l
	}
	v.mu.Unlock()
	return l.Wait(ctx)
}
