package hub_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/protocol"
)

// working is a role with work for every message, and with work that follows on the first if there is more.
type working struct{ more bool }

func (w *working) Step(_ time.Time, in protocol.Input) protocol.Effects {
	if _, done := in.(protocol.Done); done && !w.more {
		return protocol.Effects{}
	} else if done {
		w.more = false
	}
	return protocol.Effects{Work: []protocol.Work{{Do: func(protocol.Runner) protocol.Done { return protocol.Done{} }}}}
}

// Answers that depend on a party's data leave at fixed times, and so does a masked input with a proof. It is made after a delivery.
// In a round that was set up ahead it is made as soon as the data are computed.
func TestWhatIsHeldBack(t *testing.T) {
	for _, c := range []struct {
		m            protocol.Message
		more, proves bool
		want         int
	}{
		{&protocol.Announce{}, false, false, 1}, {&protocol.Announce{}, false, true, 1}, {&protocol.Announce{}, true, false, 1}, {&protocol.Announce{}, true, true, 2},
		{&protocol.Delivery{}, false, false, 0}, {&protocol.Delivery{}, false, true, 1},
		{&protocol.Roster{}, false, false, 0}, {&protocol.Roster{}, false, true, 0}, {&protocol.Survivors{}, false, true, 0},
		{&protocol.Final{}, false, false, 1}, {&protocol.Final{}, false, true, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			held, ended := 0, make(chan error, 1)
			d := &session.Driver{Role: &working{c.more}, Inputs: make(chan protocol.Input), Runner: protocol.Workers(1), Now: time.Now, Proves: c.proves,
				Events: func([]protocol.Event) {}, Hold: func(context.Context) { held++ }}
			go func() { ended <- d.Run(ctx) }()
			d.Give(ctx, protocol.Received{Envelope: protocol.Envelope{Message: c.m}})
			synctest.Wait() // all work is done
			stop()
			if err := <-ended; err != nil || held != c.want {
				t.Errorf("%s, proofs %t: held back %d times, want %d, %v", c.m.Kind(), c.proves, held, c.want, err)
			}
		})
	}
}
