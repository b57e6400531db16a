package session

import (
	"context"
	"sync"
	"time"
)

// drainLimit is the time for which a role that is told to stop stays for a round that clients pay for. It is below the ten
// seconds after which a container's manager ends a process.
const drainLimit = 8 * time.Second

// Paid says whether a round is under way that clients have paid for, or will before it can be given up. The zero value is ready for
// use.
type Paid struct {
	mu   sync.Mutex
	over chan struct{} // closed when the round is over; nil: there is none
}

// Set notes whether such a round is under way.
func (p *Paid) Set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.over == nil:
		p.over = make(chan struct{})
	case !on && p.over != nil:
		close(p.over)
		p.over = nil
	}
}

// Await returns when no such round is under way, or after drainLimit.
func (p *Paid) Await() {
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	if over == nil {
		return
	}
	late := time.NewTimer(drainLimit)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
	}
}

// Outlive returns a context that ends when drain has returned, which is called when ctx ends. The caller calls stop in the end.
func Outlive(ctx context.Context, drain func()) (longer context.Context, stop func()) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		drain()
		cancel(context.Cause(ctx))
	})
	return longer, func() { unhook(); cancel(nil) }
}
