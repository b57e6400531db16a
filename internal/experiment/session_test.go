package experiment_test

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

func mixed() protocol.Schedule {
	release := func(name string, n int, l2 float64, cap int) protocol.Release {
		return protocol.Release{Name: name, Len: n, L2: l2, MaxNonZero: cap, Scale: 200}
	}
	return protocol.Schedule{
		{Rounds: 1, Phase: "prepare", Releases: []protocol.Release{release("counts", 40, 5, 25)}, Model: 10},
		{Rounds: 2, Phase: "statistics", Releases: []protocol.Release{release("gramian", 6, 1, 6), release("moments", 80, 2, 80)}, Model: 30},
		{Rounds: 2, Phase: "bias", Releases: []protocol.Release{release("bias", 40, 3, 40)}, Model: 20},
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
		id := e.SessionID()
		if before, ok := seen[id]; ok {
			t.Errorf("%q has the session of %q", what, before)
		}
		seen[id] = what
	}
}
