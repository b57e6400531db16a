package hub

import (
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/protocol"
)

// An aggregator that was started again within a session knows of that: the federation grows later.
func TestRunningIsKept(t *testing.T) {
	d := newDoor(t, 3)
	dir := d.a.cfg.State
	id := sessionName(protocol.SessionID{7})
	if err := d.a.keepRunning(id); err != nil {
		t.Fatal(err)
	}
	again := func() *Aggregator {
		a := &Aggregator{cfg: AggregatorConfig{State: dir, Log: zerolog.Nop(), Registry: d.a.cfg.Registry}}
		if err := a.loadRunning(); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := again()
	if !a.running() || a.unended != id {
		t.Errorf("started again: session %q", a.unended)
	}
	next, err := a.cfg.Registry.Federation().Grow(d.operator, 1, nil, d.a.now())
	if err == nil {
		err = a.Grow(next)
	}
	if err != nil || a.cfg.Registry.Federation().Places() != 3 || a.growing != next {
		t.Errorf("it grows within the session: %v", err)
	}
	if err := a.keepRunning(""); err != nil {
		t.Fatal(err)
	}
	if a = again(); a.running() {
		t.Errorf("after the end: session %q", a.unended)
	}
}
