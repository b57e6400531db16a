package training_test

import (
	"testing"

	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// Runs whose noise differs must not draw the same: the difference of two such
// runs of one seed would cancel noise that each was charged for.
func TestSessionsDifferWithTheNoise(t *testing.T) {
	seen := make(map[protocol.SessionID]string)
	for _, settings := range []string{
		"", "epsilon=5", "rounds=50", "local-steps=5", "sampling-rate=0.1", "item-steps=5", "parties=5", "colluders=0.2", "tolerance=0.1", "rank=2",
		"unit=user", "unit=user clip-ratings=4", "clipping=both clip-norm=1", "clipping=both clip-norm=2", "clipping=gradient clip-norm=2",
	} {
		e := opened.Experiment(t, "algorithm=vfl-sgdmf accountant=rdp "+settings)
		if other, ok := seen[e.Session()]; ok {
			t.Errorf("%q and %q share a session", other, settings)
		}
		seen[e.Session()] = settings
	}
	same := opened.Experiment(t, "algorithm=vfl-sgdmf accountant=rdp")
	if seen[same.Session()] != "" {
		t.Error("the same experiment has another session")
	}
}

// Sessions of schedules that release anything else draw other noise.
func TestSessionsOfSchedules(t *testing.T) {
	seen := map[protocol.SessionID]string{}
	for what, change := range map[string]func(protocol.Schedule){
		"":                   func(protocol.Schedule) {},
		"more rounds":        func(s protocol.Schedule) { s[1].Rounds++ },
		"other rounds":       func(s protocol.Schedule) { s[1].Rounds, s[2].Rounds = 3, 1 },
		"another phase":      func(s protocol.Schedule) { s[2].Phase = "biases" },
		"other noise later":  func(s protocol.Schedule) { s[2].Releases[0].Noise.Variance = 2 },
		"another second sum": func(s protocol.Schedule) { s[1].Releases[1].L2 = 1 },
	} {
		e := opened.Experiment(t, "")
		e.Schedule = mixed()
		change(e.Schedule)
		id := e.DeriveSession()
		if before, ok := seen[id]; ok {
			t.Errorf("%q has the session of %q", what, before)
		}
		seen[id] = what
	}
}
