package node_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// errOwner stands for an owner's reason, with a figure that nobody else may learn.
var errOwner = errors.New("8.695 is spent")

// Owners exclude a session: the server ends with how many and the kind, and no figure; the clients live on, and the
// same processes take part in the next session.
func TestDeclinedSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtualFederation(t, "algorithm=fmf-lfl rounds=2 "+quick+"data="+ratings(t, 8, 12))
		m := f.join(admission.ServerPlace)
		f.refuses = func(_ protocol.ClientID, s protocol.SessionID) error {
			if s == firstSession {
				return errOwner
			}
			return nil
		}
		ctx, stop := context.WithCancel(f.ctx)
		defer stop()
		var all sync.WaitGroup
		for id, c := range f.joinAll() {
			all.Go(func() {
				if err := c.Run(ctx); err != nil {
					t.Errorf("client %d: %v", id, err)
				}
			})
		}
		_, err := f.server(m).Run(f.ctx)
		if !errors.Is(err, node.ErrDeclined) || !strings.Contains(err.Error(), "8 of 8 (terms 8)") || strings.Contains(err.Error(), "8.695") {
			t.Errorf("the server ends with %v", err)
		}
		if err = f.aggregator.Check(); !errors.Is(err, node.ErrDeclined) {
			t.Errorf("the aggregator is ready: %v", err)
		}
		f.next(1, "algorithm=fmf-lfl rounds=1 rank=3 "+quick)
		if _, err = f.server(m).Run(f.ctx); err != nil {
			t.Errorf("the next session: %v", err)
		}
		all.Wait()
		if err = f.aggregator.Check(); err != nil {
			t.Errorf("the aggregator after the next session: %v", err)
		}
	})
}

// One client declines, and its word is about itself alone: the session goes on without it, as tolerance allows.
func TestOneDeclineEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newVirtualFederation(t, "algorithm=fmf-lfl rounds=1 "+quick+"data="+ratings(t, 8, 12))
		m := f.join(admission.ServerPlace)
		f.refuses = func(id protocol.ClientID, _ protocol.SessionID) error {
			if id == 3 {
				return errOwner
			}
			return nil
		}
		ctx, stop := context.WithCancel(f.ctx)
		var all sync.WaitGroup
		for _, c := range f.joinAll() {
			all.Go(func() { _ = c.Run(ctx) })
		}
		if _, err := f.server(m).Run(f.ctx); err != nil {
			t.Errorf("the server ends with %v", err)
		}
		stop()
		all.Wait()
	})
}
