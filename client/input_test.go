package client_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// someEntropy is the bench's entropy.
var someEntropy = simulated.New(1, "client/3")

// sent runs a round to the masked input and returns what is in it.
func sent(b *bench) []protocol.Integers {
	b.t.Helper()
	b.script(`
		roster 1 5   -> shares 1
		delivery 1 5 -> charged 1, masked-input 1`)
	return b.last.Send[0].Message.(*protocol.MaskedInput).Vectors
}

// A client with an unusable input takes part like any other. It sends exactly the noise that it
// adds to a good input (here: a good input of zero), and only its owner hears why.
func TestUnusableInput(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.trainer.vectors = []protocol.Vector{{Index: []uint32{}}}
	b.script(`
		announce 1 -> work
		run        -> advertise 1`)
	noise := sent(b)
	if len(noise) != 1 || noise[0].Index != nil || cmp.Equal(noise[0].Value, make([]int64, 4)) {
		t.Fatalf("a contribution of zero is sent as %+v, want dense noise", noise)
	}
	broken := errors.New("the trainer is broken")
	for _, c := range []struct {
		name    string
		vectors []protocol.Vector
		err     error
		want    error
	}{
		{"NaN", []protocol.Vector{{Index: []uint32{1}, Value: []float64{math.NaN()}}}, nil, client.ErrOutOfBounds},
		{"out of range", []protocol.Vector{{Index: []uint32{1}, Value: []float64{1.1}}}, nil, client.ErrOutOfBounds},
		{"too short", []protocol.Vector{{Value: []float64{0}}}, nil, client.ErrOutOfBounds},
		{"no vectors", nil, nil, client.ErrOutOfBounds},
		{"two vectors", []protocol.Vector{{Index: []uint32{}}, {Index: []uint32{}}}, nil, client.ErrOutOfBounds},
		{"failed", nil, broken, broken},
		{"failed with a vector", []protocol.Vector{{Index: []uint32{1}, Value: []float64{1}}}, broken, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, secagg.DrawClient)
			b.trainer.vectors, b.trainer.err = c.vectors, c.err
			b.script(`
				announce 1 -> work
				run        -> advertise 1, input-unusable`)
			if !errors.Is(b.err(), c.want) {
				t.Errorf("unusable for %v, want %v", b.err(), c.want)
			}
			if d := cmp.Diff(noise, sent(b)); d != "" {
				t.Errorf("masked input (-want +got):\n%s", d)
			}
			b.script(`
				survivors 1 5 -> work
				run           -> unmask 1`)
		})
	}
}

// The noise is added to the integers: the difference from a contribution of
// zero, of the same entropy, is 1·10 at coordinate 2.
func TestNoiseIsAdded(t *testing.T) {
	var vectors [2][]int64
	for i, v := range []protocol.Vector{{Index: []uint32{}}, {Index: []uint32{2}, Value: []float64{1}}} {
		b := newBench(t, secagg.DrawClient)
		b.trainer.vectors = []protocol.Vector{v}
		b.script(`
			announce 1 -> work
			run        -> advertise 1`)
		vectors[i] = sent(b)[0].Value
	}
	for j := range vectors[0] {
		vectors[1][j] -= vectors[0][j]
	}
	if d := cmp.Diff([]int64{0, 0, 10, 0}, vectors[1]); d != "" {
		t.Errorf("contribution (-want +got):\n%s", d)
	}
}

// Noise is added to a sparse contribution at its coordinates, in whatever form: with
// the same entropy the difference from none is 0.3·10 and -0.2·10, in the second block.
func TestNoiseIsAddedToBlocks(t *testing.T) {
	var sums [2][]int64
	for i, v := range []protocol.Vector{{Index: []uint32{}}, {Index: []uint32{1}, Block: 2, Factor: []float64{0.1}, Value: []float64{3, -2}}} {
		b := newBench(t, secagg.DrawClient)
		b.trainer.vectors = []protocol.Vector{v}
		b.script(`
			announce 1 -> work
			run        -> advertise 1`)
		sums[i] = sent(b)[0].Value
	}
	for j := range sums[0] {
		sums[1][j] -= sums[0][j]
	}
	if d := cmp.Diff([]int64{0, 0, 3, -2}, sums[1]); d != "" {
		t.Errorf("contribution (-want +got):\n%s", d)
	}
}

// A trainer may use its buffers again: a message, once sent, does not change.
func TestTrainerMayReuseItsVectors(t *testing.T) {
	b := newBench(t, secagg.DrawSum)
	b.script(`
		announce 1 -> work
		run        -> advertise 1`)
	got := sent(b)
	b.trainer.vectors[0].Index[0], b.trainer.vectors[0].Value[0] = 0, 0.5
	if d := cmp.Diff([]protocol.Integers{{Index: []uint32{2}, Narrow: []int32{10}}}, got); d != "" {
		t.Errorf("masked input after the trainer reused its vector (-want +got):\n%s", d)
	}
}

// Without randomness nothing is sent, rather than an input without noise.
func TestNoEntropy(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.client = client.New(client.Config{ID: 3, Session: session, Trainer: b.trainer, Ledger: b.ledger, Noise: new(client.Samplers),
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawClient), nil }})
	b.script(`
		announce 1 -> work
		run        -> work-failed`)
	if !errors.Is(b.err(), entropy.ErrNone) {
		t.Errorf("failed for %v, want ErrNone", b.err())
	}
	b.script(`
		roster 1 5    -> message-ignored
		delivery 1 5  -> message-ignored`)
}

// Noise that could be added but not be thinned (a mean of 2^31 each, thinning
// ends at 2^30) is found out before anything is charged and sent, not after.
func TestNoiseThatCannotBeThinned(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.plan = func(i uint64) *protocol.Plan {
		p := newPlan(i)
		p.Releases[0].Noise.Variance = 2 * 0x1p32
		p.Releases[0].Width = 64
		return p
	}
	b.command("announce 1")
	if got := describe(t, b.last); got == "plan-refused" {
		return
	}
	b.script(`
		run          -> work-failed
		roster 1 5   -> message-ignored
		delivery 1 5 -> message-ignored`)
}
