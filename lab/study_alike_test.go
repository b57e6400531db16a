package lab_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/study"
)

// pairOf makes two runs of seeds 1 and 2 that change makes other than usual.
func pairOf(t *testing.T, change func(r *study.Run, seed string)) (runs study.Runs) {
	t.Helper()
	for _, seed := range []string{"1", "2"} {
		r := runOf(t, "algorithm=ssp-c epsilon=3 seed="+seed, map[string]float64{"test_rmse": 0.9})
		r.Manifest.DataDigest, r.Manifest.SplitDigest = "d1", "s"+seed
		if change != nil {
			change(r, seed)
		}
		runs = append(runs, r)
	}
	return runs
}

// reread writes what a table needs of runs into folders, and loads them: this names contents that have one name.
func reread(t *testing.T, runs study.Runs) study.Runs {
	t.Helper()
	dir := t.TempDir()
	for i, r := range runs {
		manifest, err := json.Marshal(r.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		summary, err := json.Marshal(map[string]any{"test_rmse": r.Values["test_rmse"], "asked": r.Summary.Asked})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("%02d", i))
		if err = os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"config.yaml": r.Config.YAML(), "manifest.json": manifest, "summary.json": summary} {
			if err = os.WriteFile(filepath.Join(path, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return loaded(t, dir)
}

// set changes a setting of a machine, which a summary does not note.
func set(t *testing.T, r *study.Run, name, value string) {
	t.Helper()
	if err := r.Config.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// Every place that groups runs keeps unlike runs apart, and takes like runs together: the table of means, its verdicts, differences,
// pairs, and figures. Two pairs of seeds make one row of two if they are alike, and two rows otherwise.
func TestUnlikeRunsStayApart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *study.Run, seed string)
		apart  bool
	}{
		"other ratings under one name": {func(r *study.Run, _ string) { r.Manifest.DataDigest = "d2" }, true},
		"another test file": {func(r *study.Run, _ string) {
			set(t, r, "split.test-file", "b/test.csv")
			r.Manifest.TestDigest = "t2"
		}, true},
		"another rule for duplicates": {func(r *study.Run, _ string) { set(t, r, "duplicates", "mean") }, true},
		"other columns":               {func(r *study.Run, _ string) { set(t, r, "columns", "user=a,item=b,rating=c") }, true},
		"another separator":           {func(r *study.Run, _ string) { set(t, r, "separator", ";") }, true},
		"a warm start": {func(r *study.Run, seed string) {
			r.Manifest.StartDigest, r.Manifest.StartAlike = "of seed "+seed, "first"
			r.Manifest.Sessions = make([]algorithm.PastSession, 2)
		}, true},
		"another rank":    {func(r *study.Run, _ string) { r.Summary.Asked["rank"] = "7" }, true},
		"another version": {func(r *study.Run, _ string) { r.Manifest.Revision = "of yesterday" }, true}, // and the same seeds
		"other seeds, paths and threads": {func(r *study.Run, seed string) {
			set(t, r, "seed", "1"+seed)
			r.Summary.Asked["seed"] = "1" + seed
			set(t, r, "data", "elsewhere/films.csv")
			set(t, r, "out", "elsewhere")
			set(t, r, "workers", "3")
			r.Manifest.Revision = "of yesterday"
		}, false},
	} {
		want := 1
		if c.apart {
			want = 2
		}
		runs := append(pairOf(t, nil), pairOf(t, c.change)...)
		if name != "another version" { // whose repetition Load leaves out
			runs = reread(t, runs)
		}
		table := runs.Table()
		means := table.Means(overSeeds)
		if len(means.Rows) != want {
			t.Errorf("%s: %d rows of means, want %d", name, len(means.Rows), want)
		}
		if n := int(means.Rows[0].Values["runs"]); n != 4/want {
			t.Errorf("%s: %d runs in a row, want %d", name, n, 4/want)
		}
		if groups, label := runs.Groups(algorithm.Epsilon.Key); len(groups) != want || want == 2 && label(groups[0]) == label(groups[1]) {
			t.Errorf("%s: %d groups, want %d of different names", name, len(groups), want)
		}
		standing := 0
		list, _ := means.Standings()
		for _, s := range list {
			standing += len(s.Rows)
		}
		if standing != want {
			t.Errorf("%s: %d rows stand at ε = 3, want %d", name, standing, want)
		}
		// Against the second pair with another ε there are no partners.
		far := pairOf(t, func(r *study.Run, seed string) {
			if c.change != nil {
				c.change(r, seed)
			}
			r.Summary.Asked["epsilon"] = "5"
			set(t, r, "epsilon", "5")
		})
		both := append(pairOf(t, nil), far...).Table()
		if _, err := both.Against("epsilon=5", "test_rmse", overSeeds); c.apart && name != "another version" && err == nil {
			t.Errorf("%s: runs that differ in more than ε are paired", name)
		}
		var b strings.Builder
		if err := means.Print(&b); err != nil {
			t.Fatal(err)
		}
		told := strings.Contains(b.String(), "ept apart") || len(means.Keys) > len(pairOf(t, nil).Table().Means(overSeeds).Keys)
		if told != c.apart {
			t.Errorf("%s: the table says that runs are kept apart: %v, want %v\n%s", name, told, c.apart, &b)
		}
	}
}

// A setting that one run was given and a rule chose for the other keeps them apart, and the table says so. Features without files have no
// contents that could differ.
func TestGivenAndChosenSettings(t *testing.T) {
	without := func(given bool) study.Runs {
		return pairOf(t, func(r *study.Run, _ string) {
			if set(t, r, "features", "none"); given {
				r.Summary.Asked["features"] = "none"
			}
		})
	}
	runs := reread(t, append(without(false), without(true)...))
	var b strings.Builder
	if err := runs.Table().Means(overSeeds).Print(&b); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(strings.Fields(b.String()), " "); strings.Contains(text, "none@") || !strings.Contains(text, "one was given a setting") {
		t.Errorf("the table does not say why the runs are kept apart:\n%s", text)
	}
}

// Files of features are told apart by what is in them, and not by their paths.
func TestFeaturesAreToldByTheirContent(t *testing.T) {
	with := func(path, digest, first string) study.Runs {
		return pairOf(t, func(r *study.Run, seed string) {
			set(t, r, "features", path)
			set(t, r, "seed", first+seed)
			r.Summary.Asked["seed"], r.Summary.Asked["features"], r.Manifest.FeaturesDigest = first+seed, path, digest
		})
	}
	for want, other := range map[int]study.Runs{1: with("b/words.npy", "f1", "1"), 2: with("a/words.npy", "f2", "1")} {
		runs := reread(t, append(with("a/words.npy", "f1", ""), other...))
		if rows := runs.Table().Means(overSeeds).Rows; len(rows) != want {
			t.Errorf("%d rows of means, want %d", len(rows), want)
		}
	}
}

// Captions say whether ± is over splits.
func TestCaptionsSayWhatIsOver(t *testing.T) {
	own := pairOf(t, nil)
	shared := pairOf(t, func(r *study.Run, _ string) { r.Manifest.SplitDigest = "s1" })
	for want, runs := range map[string]study.Runs{"Each seed has a split of its own": own, "share one split": shared} {
		p := runs.Table().Means(overSeeds).Paper([]string{"test_rmse"})
		if notes := strings.Join(p.Notes, " "); !strings.Contains(notes, want) {
			t.Errorf("%q, want %q", notes, want)
		}
	}
}

// A table with a run whose settings a search chose says so of every row: its ε is no ε of one run.
func TestTablesNameTheSearchOfARun(t *testing.T) {
	runs := study.Runs{runOf(t, "algorithm=ssp-c epsilon=5 seed=1", nil), runOf(t, "algorithm=ssp-c epsilon=5 seed=2", nil)}
	if _, named := runs.Table().Rows[0].Settings["chosen-by"]; named {
		t.Error("without a search the table has a column for it")
	}
	for _, r := range runs { // rows do not differ in it
		r.Summary.Privacy.Chosen = dp.Chosen{By: dp.PrivateSearch, Candidates: 20, Law: dp.Selection{Eta: 1, Gamma: 0.25}}
	}
	if got := runs.Table().Rows[0].Settings["chosen-by"]; got != "private search, 20 candidates, 4 runs on average" {
		t.Errorf("the table says %q", got)
	}
}

// A table of private rows on private ratings says that choosing among them is a search. One row is no choice, rows without noise
// state no ε, and generated ratings belong to no person.
func TestTablesSayThatAChoiceIsASearch(t *testing.T) {
	for _, c := range []struct {
		data, algorithms string
		epsilon          float64
		want             bool
	}{
		{"films.csv", "ssp-c dp-cmf", 3, true},
		{"films.csv", "ssp-c", 3, false},
		{"films.csv", "ssp-c dp-cmf", math.Inf(1), false},
		{"synthetic:small", "ssp-c dp-cmf", 3, false},
	} {
		var runs study.Runs
		for name := range strings.FieldsSeq(c.algorithms) {
			for _, seed := range []string{"1", "2"} {
				r := runOf(t, "epsilon=3 algorithm="+name+" seed="+seed+" data="+c.data, map[string]float64{"test_rmse": 0.9})
				r.Summary.Privacy.Epsilon = c.epsilon
				runs = append(runs, r)
			}
		}
		const note = "A choice of settings by these errors is a search. If the ratings are private, no ε of a row covers the choice;"
		var b strings.Builder
		err := runs.Table().Means(overSeeds).Print(&b)
		if got := strings.Contains(strings.Join(strings.Fields(b.String()), " "), note); err != nil || got != c.want {
			t.Errorf("%+v: %v\n%s", c, err, &b)
		}
	}
}
