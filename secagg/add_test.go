package secagg_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// The oracle is the same sum by messages of the clients.
func TestAddedInputsAreReceivedOnes(t *testing.T) {
	noisy := exact("noisy", 6, 24)
	noisy.Noise = protocol.Noise{Kind: protocol.Split, Variance: 1e4}
	p := plan(5, exact("exact", 3, 16), noisy)
	p.Cohort.Tolerance = 0.4
	rng := rand.New(rand.NewPCG(1, 2))
	heard, added := ideal(p, secagg.DrawSum, simulated.New(1, "sum")), ideal(p, secagg.DrawSum, simulated.New(1, "sum"))
	sums := [][]int64{make([]int64, 3), make([]int64, 6)}
	for id := range protocol.ClientID(4) { // one of five is lost before, and one of four after
		v := []protocol.Integers{{Value: make([]int64, 3)}, {Value: make([]int64, 6)}}
		for i := range v {
			for j := range v[i].Value {
				v[i].Value[j] = rng.Int64N(2000) - 1000
				sums[i][j] += v[i].Value[j]
			}
		}
		if err := heard.Receive(id, &protocol.MaskedInput{Round: 1, Vectors: v}); err != nil {
			t.Fatal(err)
		}
		if id < 3 {
			if err := heard.Receive(id, &protocol.Unmask{Round: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := added.Add(sums, 4, 3); err != nil {
		t.Fatal(err)
	}
	want, err := heard.Sum(serial{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := added.Sum(serial{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("release %d: %v, and %v of messages", i, got[i], want[i])
		}
	}
	if slices.Equal(want[1], sums[1]) {
		t.Error("there is no noise in the sum")
	}
}

func TestAddRefuses(t *testing.T) {
	p := plan(2, exact("a", 2, 16))
	s := ideal(p, secagg.DrawSum, simulated.New(1, "sum"))
	for name, c := range map[string]struct {
		sums             [][]int64
		inputs, answered int
	}{
		"no sum":            {nil, 1, 1},
		"a short sum":       {[][]int64{{1}}, 1, 1},
		"too many answered": {[][]int64{{1, 2}}, 1, 2},
		"negative":          {[][]int64{{1, 2}}, -1, -1},
	} {
		if err := s.Add(c.sums, c.inputs, c.answered); err == nil {
			t.Errorf("%s is added", name)
		}
	}
	if err := secagg.NewIdeal(p.Setup(), secagg.DrawSum, simulated.New(1, "sum"), nil).Add([][]int64{{1, 2}}, 1, 1); err == nil {
		t.Error("inputs are added before there is a plan")
	}
}
