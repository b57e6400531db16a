package node_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/agreement"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/protocol"
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
		f := newFederation(t, settings+" data="+ratings(t, 8, 12))
		emptied := *f.simulated.Data
		emptied.Ratings = dataset.Ratings{Users: 8, Items: f.simulated.Data.Items}
		for k, u := range f.simulated.Data.User {
			if u != empty {
				emptied.User, emptied.Item, emptied.Value = append(emptied.User, u), append(emptied.Item, f.simulated.Data.Item[k]), append(emptied.Value, f.simulated.Data.Value[k])
			}
		}
		e, err := experiment.OpenSet(f.simulated.Config, &emptied)
		if err != nil {
			t.Fatal(err)
		}
		if e.Cohort.Clients != 8 {
			t.Fatalf("%d clients in the simulation, want 8", e.Cohort.Clients)
		}
		f.simulated = e
		if f.public, err = agreement.Of(e, e.Session()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "own.csv")
		if err := os.WriteFile(file, []byte("user,item,rating\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f.own = map[protocol.ClientID]string{empty: file}
		want := f.simulate(sim.Faults{})
		if got := f.run(); !bytes.Equal(got.Model, want.Model) {
			t.Errorf("%s: the model is not the simulator's", settings)
		}
	}
}
