package audit

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// open is an experiment on the audited federation.
func open(t *testing.T, settings string) *experiment.Experiment {
	t.Helper()
	e, err := Open(opened.Settings(settings))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func run(t *testing.T, e *experiment.Experiment, c Config) *Report {
	t.Helper()
	c.Seed, c.Workers = 1, protocol.Workers(runtime.GOMAXPROCS(0))
	r, err := Run(t.Context(), e, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// slow leaves out of short tests what takes many thousands of runs.
func slow(t *testing.T) {
	t.Helper()
	effort.NotShort(t, "takes many runs")
}

// No honest algorithm is accused. A bound is above a claim that is met exactly in at most 5% of
// seeds. The seed is fixed, so a failure is a change of the code.
func TestHonestAlgorithmsHold(t *testing.T) {
	slow(t)
	runs, long := effort.Of(0, 40, 1200), effort.Long()
	// Of these others release sums of the same kinds, of gradients or of statistics, by the same code.
	like := []string{"ada-dpals", "am-ssp", "am-ssp-ids", "ssp-convex", "ada-dpsgd", "am-dpsgd", "dp-sgd-mf"}
	for _, a := range algorithm.All() {
		about := a.About()
		if !about.Private || isBroken(about) {
			continue
		}
		if !about.Federated() {
			if _, err := Run(t.Context(), open(t, "algorithm="+about.Name+" epsilon=5"), Config{Runs: runs, Claim: Stated, Seed: 1, Workers: 1}); err == nil || !strings.Contains(err.Error(), "in one place") {
				t.Errorf("%s: %v", about.Name, err)
			}
			continue
		}
		settings := []string{"epsilon=5"}
		if about.Noise == algorithm.PartyNoise {
			settings = []string{"epsilon=1 rounds=10"}
		} else if about.Name == "lfl-sgdmf" {
			settings = append(settings, "epsilon=5 noise=replace", "epsilon=5 tolerance=0.5 dropout=0.4 dropout-at=unmask colluders=0.2",
				"epsilon=5 rounds=4 cohort.size=4")
		}
		small := map[string]string{"ssp-i": "epsilon=5 rounds=1 rank=1",
			"ssp-c": "epsilon=5 rounds=1 rank=1 statistics.sampling-rate=0.3"}[about.Name]
		if small != "" {
			settings = append(settings, small)
		}
		for _, s := range settings {
			t.Run(about.Name+" "+s, func(t *testing.T) {
				if slices.Contains(like, about.Name) || small != "" && s != small {
					effort.LongOnly(t, "another has sums of the same kind")
				}
				if !long && !strings.Contains(s, "rounds=") && about.Has(algorithm.Rounds.Key) {
					s += " rounds=2"
				}
				runs := runs
				if about.Noise == algorithm.DistributedNoise && (about.Clients.Organisations() || strings.Contains(s, "cohort.size")) {
					runs = max(runs, 500) // of few clients, so that runs are cheap
				}
				r := run(t, open(t, "algorithm="+about.Name+" "+s), Config{Runs: runs, Claim: Stated})
				t.Logf("%.4g claimed, at least %.4g, about %.4g", r.Claimed, r.Bound, r.Point)
				if !r.Holds() {
					t.Error(r.Err())
				}
				if r.Point < r.Claimed/4 && about.Noise == algorithm.DistributedNoise {
					t.Errorf("about %.4g where %.4g is claimed: this audit could not catch anything", r.Point, r.Claimed)
				}
			})
		}
	}
}
