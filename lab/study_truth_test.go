package lab_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/study"
)

// The page and the table of a paper tell the same rows from the best. Differences from ssp-c at ε = 1 are 0.1 and -0.08 of two
// seeds, which are noise. The differences 0.30 and 0.33 have t = 0.315/0.015 = 21 and p = 2/π·atan(1/21) = 0.0303, by Student's law
// with one degree of freedom, which is Cauchy's. Holm's correction for the two tests doubles it: alone the row would be told apart.
func TestOneFamilyOfTests(t *testing.T) {
	t.Parallel()
	of := func(v float64) map[string]float64 { return map[string]float64{"test_rmse": v} }
	table := study.Runs{
		runOf(t, "algorithm=ssp-c epsilon=1 seed=1", of(0.9)), runOf(t, "algorithm=ssp-c epsilon=1 seed=2", of(0.98)),
		runOf(t, "algorithm=dp-cmf epsilon=1 seed=1", of(1.0)), runOf(t, "algorithm=dp-cmf epsilon=1 seed=2", of(0.9)),
		runOf(t, "algorithm=dpals epsilon=1 seed=1", of(1.2)), runOf(t, "algorithm=dpals epsilon=1 seed=2", of(1.31)),
	}.Table()
	check := func(rows []study.Row, open ...bool) {
		t.Helper()
		some := *table
		some.Rows = rows
		means := some.Means(overSeeds)
		list, tests := means.Standings()
		p := means.Paper([]string{"test_rmse"})
		for i, x := range list[0].Rows {
			k := slices.IndexFunc(p.Rows, func(r []study.Cell) bool { return r[0].Text == x.Name })
			if cell := p.Rows[k][len(p.Rows[k])-1]; x.Open != open[i] || cell.Close != open[i] || cell.Best != (i == 0) {
				t.Errorf("%s: open is %v on the page and %v in the table, want %v", x.Name, x.Open, cell.Close, open[i])
			}
		}
		if !strings.Contains(strings.Join(p.Notes, " "), tests) || tests == "" {
			t.Errorf("the page says %q, the table %q", tests, p.Notes)
		}
	}
	check(table.Rows, false, true, true)
	var two []study.Row
	for _, r := range table.Rows {
		if r.Settings["algorithm"] != "dp-cmf" {
			two = append(two, r)
		}
	}
	check(two, false, false)
}

// writeRun writes the folder of a run of ssp-c, with more settings.
func writeRun(t *testing.T, dir, settings, data, summary string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"config.yaml": "algorithm: ssp-c\n" + settings, "manifest.json": `{"data": "` + data + `"}`, "summary.json": summary} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A truncated summary leaves its run out with a warning; without other runs it is an error.
func TestOneDamagedRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, summary := range map[string]string{"whole": `{"test_rmse": 0.9}`, "cut": `{"test_rm`} {
		writeRun(t, filepath.Join(dir, name), "", "films", summary)
	}
	var said []string
	warn := func(err error) { said = append(said, err.Error()) }
	runs, err := study.Load(warn, dir)
	if err != nil || len(runs) != 1 || len(said) != 1 || !strings.Contains(said[0], filepath.Join("cut", "summary.json")) {
		t.Errorf("%d runs, %q, %v", len(runs), said, err)
	}
	if _, err = study.Load(warn, filepath.Join(dir, "cut")); err == nil {
		t.Error("a damaged run alone was read")
	}
}

// Two runs of one seed, under other names and with other numbers of workers, are one run: the mean
// over seeds 1, 1 and 2 is the mean over seeds 1 and 2. Another seed, ε or data set is another run.
func TestSameRunCountsOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, x := range map[string][3]string{
		"a": {"seed: 1\nname: a\nout: here\nworkers: 1\n", "films", "0.9"}, "b": {"seed: 1\nname: b\nworkers: 2\n", "films", "0.9"},
		"c": {"seed: 2\n", "films", "0.7"}, "d": {"seed: 1\nepsilon: 3\n", "films", "0.8"}, "e": {"seed: 1\n", "songs", "0.6"},
	} {
		writeRun(t, filepath.Join(dir, name), x[0], x[1], `{"test_rmse": `+x[2]+`}`)
	}
	var said []string
	runs, err := study.Load(func(err error) { said = append(said, err.Error()) }, dir, filepath.Join(dir, "c")) // c is named twice
	var names string
	for _, r := range runs {
		names += r.Name
	}
	if err != nil || names != "acde" || len(said) != 2 || !strings.Contains(said[0], "b repeats ") || !strings.Contains(said[1], "c repeats ") {
		t.Errorf("runs %s, %q, %v; want acde, and a word about b and the second c", names, said, err)
	}
}
