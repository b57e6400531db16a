package chaos

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire"
)

// travels sends every message through frames, and compares arrivals with the sent messages. No
// message is lost, each takes as many bytes as it says, and the limits of the session let it pass
// between the two roles.
type travels struct {
	limits wire.Limits
	seen   map[protocol.Kind]int
	riders int
}

func (*travels) Rule() string { return "messages survive the wire" }

func (c *travels) Observe(o Observation) error {
	left, ok := o.(Left)
	if !ok {
		return nil
	}
	m := left.Envelope.Message
	c.seen[m.Kind()]++
	if protocol.Piggyback(m) != nil {
		c.riders++
	}
	b, err := wire.AppendFrames(nil, m)
	if err != nil {
		return err
	}
	if protocol.Size(m) != len(b) {
		return fmt.Errorf("%s takes %d bytes, not the %d it says", protocol.Describe(m), len(b), protocol.Size(m))
	}
	r := wire.NewReader(bytes.NewReader(b), c.limits.Between(left.Envelope.From.Role, left.Envelope.To.Role))
	got, err := r.Read()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(m, got) {
		return fmt.Errorf("%s arrives as another (-sent +arrived):\n%s", protocol.Describe(m), cmp.Diff(m, got))
	}
	return nil
}

// All messages of the roles and the real sum under faults, in both modes, could travel between
// machines.
func TestMessagesTravel(t *testing.T) {
	effort.NotShort(t, "real sums take a second")
	prices, seen, riders := new(dp.Cache), make(map[protocol.Kind]int), 0
	for seed := range uint64(25) {
		s, err := Draw(seed, Both)
		if err != nil {
			t.Fatal(err)
		}
		w, err := newWorld(s, prices, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &travels{seen: seen, limits: wire.LimitsFor(wire.Session{
			Plans:      []*protocol.Plan{{Phase: "chaos", Cohort: s.Cohort, Releases: s.Releases}},
			Neighbours: s.Cohort.Clients - 1,
			Model:      32, // a hash
		})}
		w.checkers = append(w.checkers, c)
		w.run()
		if w.result.violation != nil {
			t.Error(w.result.violation)
		}
		riders += c.riders
	}
	for k := range protocol.KindForward { // there are no relays, and no connection counts: no round is held
		if seen[k] == 0 && k != protocol.KindHeld {
			t.Errorf("no message %s was sent", k)
		}
	}
	if riders == 0 {
		t.Error("nothing travelled with another message")
	}
}
