package client

import (
	"testing"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// giving is a trainer that gives one vector, or fails where there is none.
type giving struct{ vector *protocol.Vector }

func (g giving) Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error) {
	if g.vector == nil {
		return nil, entropy.ErrNone
	}
	return []protocol.Vector{*g.vector}, nil
}
func (giving) Finish([]byte, protocol.Runner) error { return nil }

// heavySum is a sum whose answers are work.
type heavySum struct{ Sum }

func (heavySum) Heavy() bool { return true }

// After the fixed time of a dense client, the remaining work is the same for every record: no
// entry, few entries, all entries, or unusable entries. The values stay.
func TestDensePreparesEveryRecordAlike(t *testing.T) {
	p := &protocol.Plan{Releases: []protocol.Release{{Name: "x", Len: 4, MaxNonZero: 4, L2: 10, Scale: 1, Width: 16}}}
	for name, c := range map[string]struct {
		of   *protocol.Vector
		want [4]int64
	}{
		"nothing":  {&protocol.Vector{Index: []uint32{}}, [4]int64{}},
		"one":      {&protocol.Vector{Index: []uint32{2}, Value: []float64{3}}, [4]int64{2: 3}},
		"all":      {&protocol.Vector{Value: []float64{1, 2, 3, 4}}, [4]int64{1, 2, 3, 4}},
		"unusable": {nil, [4]int64{}},
	} {
		s := &Shared{Trainer: func(protocol.ClientID) Trainer { return giving{c.of} }, Entropy: func(protocol.ClientID) entropy.Source { return entropy.System() }, dense: true}
		x, err := s.prepare(0, p, heavySum{}, protocol.Workers(1))
		if err != nil {
			t.Fatal(err)
		}
		if in := x.inputs[0]; in.Index != nil || len(in.Value) != 4 || [4]int64(in.Value) != c.want {
			t.Errorf("%s: %+v, want the dense %v", name, in, c.want)
		}
	}
}
