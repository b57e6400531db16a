package lab_test

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/study"
	_ "github.com/fedsim/fedsim/lab" // algorithms of the papers
	"github.com/fedsim/fedsim/lab/presets"
	"github.com/fedsim/fedsim/lab/sweep"
)

// Every preset is a grid that can be run at both scales, has a name of its own and claims
// whose conditions some of its runs meet, on both sides.
func TestPresets(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range presets.All() {
		if seen[p.Name] || len(p.Claims) == 0 || p.Title == "" || p.Source == "" {
			t.Errorf("%+v", p)
		}
		seen[p.Name] = true
		for scale, least := range map[string]int{presets.Small: 3, presets.Full: 5} {
			if scale == presets.Full && !effort.Long() {
				continue
			}
			said, err := p.Settings(scale)
			if err != nil {
				t.Fatal(err)
			}
			g, err := sweep.New(said, p.Options)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			runs, err := g.Runs()
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if len(runs) < 2*least {
				t.Errorf("%s, %s: %d runs", p.Name, scale, len(runs))
			}
			for _, c := range p.Claims {
				for _, condition := range []string{c.Lower, c.Than} {
					if n := meeting(runs, condition); n < least {
						t.Errorf("%s: %d runs meet %q", p.Name, n, condition)
					}
				}
				if (c.Than == "") == (c.Baseline == "") {
					t.Errorf("%s: %q is compared with neither or both", p.Name, c.Text)
				}
			}
		}
	}
	if p, err := presets.Find("bench-ml-1m"); err != nil || p.Name != "bench-ml-1m" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := presets.Find("fmf-fig99"); err == nil || !strings.Contains(err.Error(), "there are fmf-fig3, ") {
		t.Error(err)
	}
	if _, err := presets.All()[0].Settings("huge"); err == nil {
		t.Error("any scale passes")
	}
}

// Every benchmark is a grid that can be run at both scales. The expected numbers of runs are counted by hand: private algorithms
// times budgets, and each reference once, times seeds.
func TestBenchmarks(t *testing.T) {
	want := map[string]int{"bench-ml-100k": 3*4 + 2, "bench-ml-1m": 3*4 + 2, "bench-ml-1m-ranked": 3*4 + 1, "bench-ml-10m": 4 * 4, "bench-ml-20m": 5 * 4}
	for _, p := range presets.Benchmarks() {
		for scale, seeds := range map[string]int{presets.Small: 3, presets.Full: 5} {
			said, err := p.Settings(scale)
			if err != nil {
				t.Fatal(err)
			}
			g, err := sweep.New(said, p.Options)
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			runs, err := g.Runs()
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if len(runs) != want[p.Name]*seeds {
				t.Errorf("%s, %s: %d runs, want %d", p.Name, scale, len(runs), want[p.Name]*seeds)
			}
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("there are no presets %v", want)
	}
}

// meeting counts the runs that meet a condition.
func meeting(runs []sweep.Run, condition string) (n int) {
	for _, r := range runs {
		met := true
		for f := range strings.FieldsSeq(condition) {
			key, value, _ := strings.Cut(f, "=")
			met = met && r.Config.Text(config.Find(key)) == value
		}
		if met {
			n++
		}
	}
	return n
}

// Verdicts follow from the interval of the mean difference. By hand, with Student's quantile
// 12.7062 for one degree of freedom: differences -0.2 and -0.3 have mean -0.25, deviation 0.0707,
// margin 12.7062*0.0707/√2 = 0.635, so that the verdict is open; -0.25 and -0.2501 hold.
func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		second  [2]float64 // RMSE of the second algorithm, at two seeds; of the first it is 1
		verdict string
		mean    float64
	}{
		"too far apart":     {[2]float64{1.2, 1.3}, presets.CannotTell, -0.25},
		"the first is best": {[2]float64{1.25, 1.2501}, presets.Holds, -0.25005},
		"the second is":     {[2]float64{0.75, 0.7501}, presets.HoldsNot, 0.24995},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for seed, rmse := range c.second {
				left(t, dir, "ssp-c", seed, 1)
				left(t, dir, "dpals", seed, rmse)
			}
			runs, err := study.Load(func(err error) { t.Error(err) }, dir)
			if err != nil {
				t.Fatal(err)
			}
			p := presets.Preset{Name: "x", Claims: []presets.Claim{{Text: "one is better", Lower: "algorithm=ssp-c", Than: "algorithm=dpals"},
				{Text: "than its baseline", Lower: "algorithm=ssp-c", Baseline: "baselines.item_bias"}, {Text: "nobody is there", Lower: "algorithm=lfl-sgdmf", Than: "algorithm=dpals"}}}
			part, err := p.Part(runs, dir)
			if err != nil {
				t.Fatal(err)
			}
			if x := part.Claims[0]; x.Verdict != c.verdict || !strings.Contains(x.Evidence, "over 2 seeds, 2 pairs of runs") {
				t.Errorf("%+v, want %s", x, c.verdict)
			}
			s, _, err := runs.Table().Paired("algorithm=ssp-c", "algorithm=dpals", "", "test_rmse", func(v float64) float64 { return v })
			if err != nil || math.Abs(s.Mean-c.mean) > 1e-12 {
				t.Errorf("%+v, %v, want a mean of %v", s, err, c.mean)
			}
			if x := part.Claims[1]; x.Verdict != presets.HoldsNot { // 1 against 0.9, twice
				t.Errorf("%+v", x)
			}
			if x := part.Claims[2]; x.Verdict != presets.CannotTell || x.Evidence != "0 seeds are too few" {
				t.Errorf("%+v", x)
			}
		})
	}
}

// Times lower is a question about ratios. By hand: of 1 and 10, 1 and 1,000 the logarithms differ
// by 1 and 3, so that the mean ratio is 100; the margin, 12.7062*√2/√2 = 12.7, leaves the verdict
// open. 1 and 150, 1 and 151 are 100 times and not 200 times lower, for the margin is
// 12.7062*|log10(151/150)|/2 = 0.018, a factor of 1.04.
func TestTimes(t *testing.T) {
	for name, c := range map[string]struct {
		second [2]float64
		times  float64
		want   string
	}{
		"nobody knows":   {[2]float64{10, 1000}, 100, presets.CannotTell},
		"a hundred":      {[2]float64{150, 151}, 100, presets.Holds},
		"two hundred":    {[2]float64{150, 151}, 200, presets.HoldsNot},
		"at all, not so": {[2]float64{0.5, 0.5001}, 1, presets.HoldsNot},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for seed, v := range c.second {
				left(t, dir, "ssp-c", seed, 1)
				left(t, dir, "dpals", seed, v)
			}
			runs, err := study.Load(func(err error) { t.Error(err) }, dir)
			if err != nil {
				t.Fatal(err)
			}
			p := presets.Preset{Name: "x", Claims: []presets.Claim{{Text: "far better", Lower: "algorithm=ssp-c", Than: "algorithm=dpals", Times: c.times}}}
			part, err := p.Part(runs, dir)
			if err != nil {
				t.Fatal(err)
			}
			if x := part.Claims[0]; x.Verdict != c.want || !strings.Contains(x.Evidence, "times lower") {
				t.Errorf("%+v, want %s", x, c.want)
			}
		})
	}
}

// left writes the files of a run that a table reads.
func left(t *testing.T, dir, algorithm string, seed int, rmse float64) {
	t.Helper()
	n := string(rune('1' + seed))
	run := filepath.Join(dir, algorithm+n)
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	number := strings.TrimRight(strings.TrimRight(strconv.FormatFloat(rmse, 'f', 6, 64), "0"), ".")
	for file, text := range map[string]string{
		"config.yaml": "algorithm: " + algorithm + "\nseed: " + n + "\n", "manifest.json": `{"data": "films"}`, "metrics.jsonl": "",
		"summary.json": `{"test_rmse": ` + number + `, "baselines": {"item_bias": 0.9}, "asked": {"algorithm": "` + algorithm + `", "seed": "` + n + `"},
			"privacy": {"epsilon": 10, "delta": 1e-5, "unit": "user", "relation": "zero-out", "accountant": "rdp", "sampling": "none", "noise": "skellam"}}`,
	} {
		if err := os.WriteFile(filepath.Join(run, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
