package study

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/internal/families"
)

// tableOf makes a table of rows "algorithm epsilon seed test_rmse".
func tableOf(lines ...string) *Table {
	t := &Table{primary: "test_rmse", Metrics: []string{"test_rmse"}, Keys: []*config.Key{algorithm.Name.Key, algorithm.Epsilon.Key, algorithm.Seed.Key}}
	for _, l := range lines {
		f := strings.Fields(l)
		v, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			panic(err)
		}
		settings, r := map[string]string{"algorithm": f[0], "epsilon": f[1], "seed": f[2]}, &Run{Name: l, Values: map[string]float64{"test_rmse": v}}
		r.Summary.Asked = settings
		if err = r.Config.Set("seed", f[2]); err != nil {
			panic(err)
		}
		t.Rows = append(t.Rows, Row{Name: l, Settings: settings, Values: r.Values, runs: Runs{r}})
	}
	return t
}

var seeds = []*config.Key{algorithm.Seed.Key}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > within {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Means by hand: 1, 2, 4.5 have mean 2.5 and squared deviations 2.25 + 0.25 + 4 = 6.5 over 2.
func TestMeans(t *testing.T) {
	m := tableOf("a 1 1 1", "a 1 2 2", "a 1 3 4.5", "a 5 1 7").Means(seeds)
	if len(m.Rows) != 2 || len(m.Keys) != 2 {
		t.Fatalf("%d rows by %d keys, want 2 by 2", len(m.Rows), len(m.Keys))
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
	d, err := tableOf("a 1 1 10", "a 1 2 11", "a 1 3 12", "b 1 1 9", "b 1 2 8", "b 1 3 7", "b 1 4 1", "b 5 1 3").Against("algorithm=a", "test_rmse", seeds)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Rows) != 1 { // of b at epsilon 5 there is no partner
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
	table := tableOf("a 1 1 10", "b 5 2 9")
	for condition, want := range map[string]string{
		"algorithm":     "KEY=VALUE of a key in which runs differ",
		"rank=3":        "KEY=VALUE of a key in which runs differ",
		"algorithm=c":   "no run is like that",
		"algorithm=a":   "no other run has a partner",
		"algorithm=a x": "KEY=VALUE",
	} {
		if _, err := table.Against(condition, "test_rmse", seeds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", condition, err, want)
		}
	}
}

func TestOrderOfRows(t *testing.T) {
	var texts []string
	table := tableOf("a inf 1 1", "a 20 1 1", "a 5 1 1", "a 5 10 1", "a 5 9 1")
	for _, r := range slices.SortedFunc(slices.Values(table.Rows), table.order) {
		texts = append(texts, r.Settings["epsilon"]+" "+r.Settings["seed"])
	}
	if d := cmp.Diff([]string{"5 1", "5 9", "5 10", "20 1", "inf 1"}, texts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOneIsNoSample(t *testing.T) {
	s := Describe([]float64{3})
	if s.N != 1 || s.Mean != 3 || !math.IsNaN(s.Deviation) || !math.IsNaN(s.Margin()) || !math.IsNaN(s.P()) {
		t.Errorf("%+v, margin %v, p %v", s, s.Margin(), s.P())
	}
	if p := Describe([]float64{2, 2}).P(); p != 0 {
		t.Errorf("p = %v of equal differences that are not 0", p)
	}
}
