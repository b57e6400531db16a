package client

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// With local noise a client adds the whole variance that it is charged for, whatever the cohort
// is, and takes nothing back. Over 20,000 coordinates the sample variance of Skellam noise of
// 100 deviates by 100·√((2 + 1/100)/20,000) = 1.0: six of that fail once in 5e8.
func TestLocalNoise(t *testing.T) {
	p := &protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 50, Tolerance: 0.4, Colluders: 0.1}, Releases: []protocol.Release{
		{Name: "x", Len: 20_000, L2: 1, MaxNonZero: 1, Scale: 1, Width: 32, Noise: protocol.Noise{Kind: protocol.LocalNoise, Variance: 100}},
	}}
	var s Samplers
	sent, kept, err := s.draw(p, simulated.New(1, "client"), []protocol.Integers{{Index: []uint32{}}})
	if err != nil {
		t.Fatal(err)
	}
	var squares float64
	for _, x := range sent[0].Value {
		squares += float64(x) * float64(x)
	}
	if v := squares / 20_000; math.Abs(v-100) > 6 {
		t.Errorf("a client adds noise of variance %v, and is charged for 100", v)
	}
	back, err := s.remove(p, kept, 30)
	if err != nil || len(back[0].Value) != 0 {
		t.Errorf("%d coordinates are taken back, %v", len(back[0].Value), err)
	}
}
