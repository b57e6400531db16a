package node_test

import (
	"bytes"
	"testing"

	"github.com/fedsim/fedsim/sim"
)

// A client whose file holds no ratings takes part: the session ends with the model of the
// simulator on the same data without that user's, bit for bit.
func TestEmptyClientTakesPart(t *testing.T) {
	const empty = 3
	for _, settings := range []string{
		"contribution=all-ratings rounds=2 tolerance=0.2 colluders=0.2",
		"algorithm=dpals rounds=1 tolerance=0.2 colluders=0.2",
	} {
		f := newFederation(t, settings+" data="+ratings(t, 4, 12))
		f.empty(empty)
		if n := f.simulated.Cohort.All(); n != 4 {
			t.Fatalf("%d clients in the simulation, want 4", n)
		}
		want := f.simulate(sim.Faults{})
		if got := f.run(); !bytes.Equal(got.Model, want.Model) {
			t.Errorf("%s: the model is not the simulator's", settings)
		}
	}
}
