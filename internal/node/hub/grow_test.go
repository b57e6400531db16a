package hub

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// An aggregator that was started again within a session knows of that by its log: the federation grows later.
func TestRunningIsKept(t *testing.T) {
	d := newDoor(t, 3)
	open := func() *store.SessionLog {
		l, err := store.OpenSessionLog(d.a.cfg.State, d.a.cfg.Federation.Hash(), d.a.cfg.Identity)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	p := d.description()
	of, err := p.Verify(d.a.cfg.Federation, d.server.Public())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := of.Leaf(p, d.server.Public())
	if err == nil {
		err = open().Add(leaf)
	}
	if err != nil {
		t.Fatal(err)
	}
	again := func() *Aggregator {
		return &Aggregator{cfg: AggregatorConfig{Log: zerolog.Nop(), Registry: d.a.cfg.Registry}, log: open()}
	}
	a := again()
	if !a.running() {
		t.Error("started again, no session runs")
	}
	next, err := a.cfg.Registry.Federation().Grow(d.operator, 1, nil, d.a.now())
	if err == nil {
		err = a.Grow(next)
	}
	if err != nil || a.cfg.Registry.Federation().Places() != 3 || a.growing != next {
		t.Errorf("it grows within the session: %v", err)
	}
	f := &protocol.Final{Model: []byte("model")}
	if err = errors.Join(protocol.SignFinal(d.server.Ed25519(), d.terms.Session, f), a.log.Add(leaf.Ended(f, nil))); err != nil {
		t.Fatal(err)
	}
	if a = again(); a.running() {
		t.Error("after the end a session runs")
	}
}
