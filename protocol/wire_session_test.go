package protocol_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// A client's advertisement on its way to the aggregator, which knows what the
// federation looks like and takes what a client sends, and nothing else.
func TestAdvertisementOnItsWay(t *testing.T) {
	plan := &protocol.Plan{
		Cohort: protocol.Cohort{Clients: 100, Tolerance: 0.3},
		Releases: []protocol.Release{{Name: "items", Len: 1000, L2: 1, MaxNonZero: 20, Scale: 1024, Width: 24,
			Noise: protocol.Noise{Kind: protocol.Split, Variance: 1e6}}},
	}
	limits := wire.LimitsFor(wire.Session{Plans: []*protocol.Plan{plan}, Neighbours: 99, Model: 8000})

	var stream []byte
	for _, m := range []protocol.Message{
		&protocol.Advertise{Round: 1, Keys: &protocol.Keys{Mask: protocol.Key{1}, Channel: protocol.Key{2}}},
		&protocol.Final{Model: []byte("not a client's to send")},
	} {
		var err error
		if stream, err = wire.AppendFrames(stream, m); err != nil {
			t.Fatal(err)
		}
	}

	r := wire.NewReader(bytes.NewReader(stream), limits.Between(protocol.Client, protocol.Aggregator))
	if m, err := r.Read(); err != nil || m.Kind() != protocol.KindAdvertise || protocol.Size(m) != 77 {
		t.Errorf("%v, %v; want an advertisement of 77 bytes", m, err)
	}
	const want = "wire: a message of this kind is not taken here: kind 17"
	if _, err := r.Read(); !errors.Is(err, wire.ErrKind) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
