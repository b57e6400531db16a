package lab_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/study"
)

// tableOf makes a table of runs "algorithm epsilon seed test_rmse".
func tableOf(t *testing.T, lines ...string) *study.Table {
	t.Helper()
	var runs study.Runs
	for _, l := range lines {
		f := strings.Fields(l)
		v, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, runOf(t, "algorithm="+f[0]+" epsilon="+f[1]+" seed="+f[2], map[string]float64{"test_rmse": v}))
	}
	return runs.Table()
}

var overSeeds = []*config.Key{algorithm.Seed.Key}

// Means by hand: 1, 2, 4.5 have mean 2.5 and squared deviations 2.25 + 0.25 + 4 = 6.5 over 2.
func TestMeans(t *testing.T) {
	m := tableOf(t, "ssp-c 1 1 1", "ssp-c 1 2 2", "ssp-c 1 3 4.5", "ssp-c 5 1 7").Means(overSeeds)
	if len(m.Rows) != 2 || slices.Contains(m.Keys, algorithm.Seed.Key) || len(m.Keys) != 3 {
		t.Fatalf("%d rows by %d keys, want 2 by 3, without the seed", len(m.Rows), len(m.Keys))
	}
	near(t, "mean", m.Rows[0].Values["test_rmse"], 2.5, 1e-15)
	near(t, "deviation", m.Rows[0].Values["test_rmse sd"], math.Sqrt(3.25), 1e-15)
	near(t, "runs", m.Rows[0].Values["runs"], 3, 0)
	if _, ok := m.Rows[1].Values["test_rmse sd"]; ok || m.Rows[1].Values["runs"] != 1 {
		t.Errorf("of one run: %v", m.Rows[1].Values)
	}
}

// Differences are paired by seed: 9-10, 8-11, 7-12 are -1, -3, -5 with mean -3 and deviation 2. The
// quantile of Student's t at 0.975 with 2 degrees of freedom is 4.30265 (any table). So the margin
// is 4.30265*2/√3 = 4.96827. For 2 degrees of freedom the law has a closed form: P(T > t) = 1/2 -
// t/(2√(2+t²)), at t = 3/(2/√3) = 2.598076.
func TestPairedDifferences(t *testing.T) {
	d, err := tableOf(t, "ssp-c 1 1 10", "ssp-c 1 2 11", "ssp-c 1 3 12", "dpals 1 1 9", "dpals 1 2 8", "dpals 1 3 7", "dpals 1 4 1",
		"dpals 5 1 3").Against("algorithm=ssp-c", "test_rmse", overSeeds)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Rows) != 1 { // of dpals at epsilon 5 there is no partner
		t.Fatalf("%d rows, want 1", len(d.Rows))
	}
	v, x := d.Rows[0].Values, 3/(2/math.Sqrt(3))
	near(t, "difference", v["test_rmse difference"], -3, 1e-12)
	near(t, "deviation", v["sd"], 2, 1e-12)
	near(t, "pairs", v["pairs"], 3, 0) // the fourth seed has no partner
	near(t, "margin", v["margin"], 4.96827, 5e-5)
	near(t, "p", v["p"], 2*(0.5-x/(2*math.Sqrt(2+x*x))), 1e-9)
}

func TestAgainstWhat(t *testing.T) {
	table := tableOf(t, "ssp-c 1 1 10", "dpals 5 2 9")
	for condition, want := range map[string]string{
		"algorithm":         "KEY=VALUE of a key in which runs differ",
		"rank=3":            "KEY=VALUE of a key in which runs differ",
		"algorithm=am-ssp":  "no run is like that",
		"algorithm=ssp-c":   "no other run has a partner",
		"algorithm=ssp-c x": "KEY=VALUE",
	} {
		if _, err := table.Against(condition, "test_rmse", overSeeds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", condition, err, want)
		}
	}
}

func TestOrderOfRows(t *testing.T) {
	var texts []string
	for _, r := range tableOf(t, "ssp-c inf 1 1", "ssp-c 20 1 1", "ssp-c 5 1 1", "ssp-c 5 10 1", "ssp-c 5 9 1").Rows {
		texts = append(texts, r.Settings["epsilon"]+" "+r.Settings["seed"])
	}
	if d := cmp.Diff([]string{"5 1", "5 9", "5 10", "20 1", "inf 1"}, texts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOneIsNoSample(t *testing.T) {
	s := study.Describe([]float64{3})
	if s.N != 1 || s.Mean != 3 || !math.IsNaN(s.Deviation) || !math.IsNaN(s.Margin()) || !math.IsNaN(s.P()) {
		t.Errorf("%+v, margin %v, p %v", s, s.Margin(), s.P())
	}
	if p := study.Describe([]float64{2, 2}).P(); p != 0 {
		t.Errorf("p = %v of equal differences that are not 0", p)
	}
}
