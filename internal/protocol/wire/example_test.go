package wire_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// A client's advertisement on its way to the aggregator, which knows what the
// federation looks like and takes what a client sends, and nothing else.
func Example() {
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
			fmt.Println(err)
		}
	}

	r := wire.NewReader(bytes.NewReader(stream), limits.Between(protocol.Client, protocol.Aggregator))
	m, err := r.Read()
	fmt.Println(m.Kind(), protocol.Size(m), err)
	_, err = r.Read()
	fmt.Println(errors.Is(err, wire.ErrKind), err)
	// Output:
	// advertise 77 <nil>
	// true wire: a message of this kind is not taken here: kind 17
}
