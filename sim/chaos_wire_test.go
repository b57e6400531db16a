package sim_test

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// travels sends every message through frames, and compares arrivals with the sent messages. No
// message is lost, each takes as many bytes as it says, and the limits of the session let it pass
// between the two roles.
type travels struct{ limits wire.Limits }

func newTravels(s *Schedule) travels {
	return travels{wire.LimitsFor(wire.Session{
		Plans:      []*protocol.Plan{{Phase: "chaos", Cohort: s.Cohort, Releases: s.Releases}},
		Neighbours: s.Cohort.Clients - 1,
		Model:      32, // a hash
	})}
}

func (travels) Rule() string { return "messages survive the wire" }

func (c travels) Observe(o Observation) error {
	left, ok := o.(Left)
	if !ok {
		return nil
	}
	m := left.Envelope.Message
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
