package training_test

import (
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// session returns the session of an experiment of organisations on the small set.
func session(t *testing.T, settings string) protocol.SessionID {
	t.Helper()
	c, err := config.Resolve(opened.Settings("data=synthetic:small-80 algorithm=hfl-sgdmf accountant=rdp rounds=3 " + settings))
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatalf("%s: %v", settings, err)
	}
	return e.Session()
}

// Parties that add noise themselves draw the same in runs that train the same, and other
// noise in all others.
func TestSessionFollowsTheTraining(t *testing.T) {
	first := session(t, "")
	for _, settings := range []string{
		"secagg=real", "secagg=real mode=active", "secagg=real noise-draw=client", "baselines=quick", "seed=2", "workers=1", "out=there name=x",
		"network.latency-ms=60 network.up-mbps=5 network.down-mbps=5 network.compute-ms=2 network.stage-timeout-s=70",
		"eval.top-k=3 eval.relevant=2 eval.users=9", "eval.drift=no",
		"deployment.stage-timeout-s=5 deployment.gather-s=5",
		"split.seed=1", "seed=2 split.seed=2", // the seed of the run, as by itself
		"epsilon=10 unit=user dropout=0 parties=10 rank=1", // what is chosen anyway
	} {
		if session(t, settings) != first {
			t.Errorf("with %s the session is another one", settings)
		}
	}
	seen := map[protocol.SessionID]string{first: "nothing else"}
	for _, settings := range []string{
		"local-steps=9", "train=both", "clip-norm=4", "clip-ratings=7", "sampling-rate=0.1", "parties=9", "rank=2", "epsilon=9", "tolerance=0.2", "colluders=0.2",
		"dropout=0.1", "dropout=0.1 dropout-at=unmask", "leave=0.1", "away=0.1", "away=0.1 away-rounds=2", "sit-out=0.1", "split.test=0.2", "split.validation=0.1", "split.seed=2",
		"model.density=0.02", "model.user-rate=0.01", "model.item-rate=0.01",
	} {
		id := session(t, settings)
		if before, ok := seen[id]; ok {
			t.Errorf("%s has the session of %s", settings, before)
		}
		seen[id] = settings
	}
}
