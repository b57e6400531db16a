package training_test

import (
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	_ "github.com/fedsim/fedsim/lab"               // likewise
	"github.com/fedsim/fedsim/protocol"
)

// someSession is the session of the deployments here.
var someSession = protocol.SessionID{0xfe, 0xd5, 15: 1}

// publish returns the public part of an experiment.
func publish(t *testing.T, e *experiment.Experiment) *agreement.Public {
	t.Helper()
	p, err := agreement.Of(e, someSession)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// carried returns a publication after the way to another party.
func carried(t *testing.T, p *agreement.Public) *agreement.Public {
	t.Helper()
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := agreement.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// baseline returns a run's baseline of a name.
func baseline(t *testing.T, e *experiment.Experiment, name string) algorithm.Baseline {
	t.Helper()
	for _, b := range e.Baselines() {
		if b.Name == name {
			return b
		}
	}
	t.Fatalf("there is no baseline %s", name)
	return algorithm.Baseline{}
}

// constant predicts the same of everything.
type constant float64

func (c constant) Predict(_ int, _ []int32, out []float64) {
	for i := range out {
		out[i] = float64(c)
	}
}

// inTurn runs one call after the other.
type inTurn struct{}

func (inTurn) Each(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}
