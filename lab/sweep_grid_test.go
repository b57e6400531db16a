package lab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/lab/sweep"
)

// said makes settings as flags do.
func said(pairs ...string) (list []config.Setting) {
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		list = append(list, config.Setting{Key: key, Value: value, Origin: "--" + key})
	}
	return list
}

func runsOf(t *testing.T, o sweep.Options, pairs ...string) []sweep.Run {
	t.Helper()
	g, err := sweep.New(said(pairs...), o)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := g.Runs()
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// values returns the values of keys, run by run.
func values(runs []sweep.Run, keys ...string) (list []string) {
	for _, r := range runs {
		var words []string
		for _, k := range keys {
			words = append(words, r.Config.Text(config.Find(k)))
		}
		list = append(list, strings.Join(words, " "))
	}
	return list
}

// All combinations, the last key fastest; expected lists are written by hand.
func TestCombinations(t *testing.T) {
	for name, c := range map[string]struct {
		options sweep.Options
		said    []string
		keys    []string
		want    []string
	}{
		"product": {said: []string{"epsilon=1,5", "seed=1..3"}, keys: []string{"epsilon", "seed"},
			want: []string{"1 1", "1 2", "1 3", "5 1", "5 2", "5 3"}},
		"pairs": {options: sweep.Options{Zip: []string{"rounds,rank"}}, said: []string{"rounds=10,100", "seed=1,2", "rank=1,2"}, keys: []string{"rounds", "rank", "seed"},
			want: []string{"10 1 1", "10 1 2", "100 2 1", "100 2 2"}},
		"skip": {options: sweep.Options{Skip: []string{"algorithm=ssp-c epsilon=1"}}, said: []string{"algorithm=lfl-sgdmf,ssp-c", "epsilon=1,5"}, keys: []string{"algorithm", "epsilon"},
			want: []string{"lfl-sgdmf 1", "lfl-sgdmf 5", "ssp-c 5"}},
		"when": {options: sweep.Options{When: []string{"algorithm=vfl-sgdmf: parties=5 rounds=3"}}, said: []string{"algorithm=lfl-sgdmf,vfl-sgdmf", "rounds=7"}, keys: []string{"algorithm", "rounds", "parties"},
			want: []string{"lfl-sgdmf 7 auto", "vfl-sgdmf 3 5"}},
		"keys without effect make no runs": {said: []string{"algorithm=lfl-sgdmf,ssp-c", "model.fit-steps=10,20"}, keys: []string{"algorithm", "model.fit-steps"},
			want: []string{"lfl-sgdmf 10", "lfl-sgdmf 20", "ssp-c 10"}},
		"a text keeps its commas": {said: []string{"features=genres,year", "seed=1,2"}, keys: []string{"features", "seed"},
			want: []string{"genres,year 1", "genres,year 2"}},
		"one split for all seeds": {said: []string{"algorithm=ssp-c,lfl-sgdmf", "seed=4,9"}, keys: []string{"seed", "split.seed"},
			want: []string{"4 4", "9 4", "4 4", "9 4"}},
		"one split of one seed": {said: []string{"epsilon=1,5", "seed=7"}, keys: []string{"seed", "split.seed"}, want: []string{"7 7", "7 7"}},
		"one split of no seed":  {said: []string{"epsilon=1,5"}, keys: []string{"seed", "split.seed"}, want: []string{"1 1", "1 1"}},
		"a split for each seed": {said: []string{"seed=4,9", "split.seed=auto"}, keys: []string{"seed", "split.seed"}, want: []string{"4 auto", "9 auto"}},
		"splits that are said":  {said: []string{"seed=4,9", "split.seed=1..2"}, keys: []string{"seed", "split.seed"}, want: []string{"4 1", "4 2", "9 1", "9 2"}},
		"a split by a rule": {options: sweep.Options{When: []string{"seed=9: split.seed=auto"}}, said: []string{"seed=4,9"}, keys: []string{"seed", "split.seed"},
			want: []string{"4 4", "9 auto"}},
		"a split without draws": {said: []string{"seed=4,9", "split.by=time"}, keys: []string{"seed", "split.seed"}, want: []string{"4 auto", "9 auto"}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, values(runsOf(t, c.options, c.said...), c.keys...)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestRunsAreNamedByWhatTheyAre(t *testing.T) {
	runs := runsOf(t, sweep.Options{}, "algorithm=ssp-c", "epsilon=1,1e+9,inf", "workers=3")
	var names []string
	for _, r := range runs {
		if !strings.HasSuffix(r.Name, "-"+r.Digest[:8]) || algorithm.RunName.Of(r.Config) != r.Name {
			t.Errorf("%s: digest %s, name %s", r.Name, r.Digest, algorithm.RunName.Of(r.Config))
		}
		names = append(names, strings.TrimSuffix(r.Name, r.Digest[:8]))
	}
	if want := []string{"ssp-c-epsilon1-", "ssp-c-epsilon1e+9-", "ssp-c-epsiloninf-"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	again := runsOf(t, sweep.Options{}, "algorithm=ssp-c", "epsilon=inf", "workers=1", "out=elsewhere")
	if again[0].Digest != runs[2].Digest {
		t.Error("where results go and how many goroutines compute change the digest")
	}
	if other := runsOf(t, sweep.Options{}, "algorithm=ssp-c", "epsilon=inf", "seed=2"); other[0].Digest == runs[2].Digest {
		t.Error("another seed has the same digest")
	}
}

// A longer list of seeds contains the runs of the shorter list, and their digests say that they are
// finished.
func TestLongerListsHaveTheSameRuns(t *testing.T) {
	digests := func(pairs ...string) (list []string) {
		for _, r := range runsOf(t, sweep.Options{}, pairs...) {
			list = append(list, r.Digest)
		}
		return list
	}
	all := digests("algorithm=ssp-c", "seed=3..6")
	for _, shorter := range [][]string{digests("algorithm=ssp-c", "seed=3"), digests("algorithm=ssp-c", "seed=3,4")} {
		if !slices.Equal(shorter, all[:len(shorter)]) {
			t.Errorf("%q, then %q", shorter, all)
		}
	}
	if each := digests("algorithm=ssp-c", "seed=3..6", "split.seed=auto"); slices.ContainsFunc(each[1:], func(d string) bool { return slices.Contains(all, d) }) {
		t.Errorf("runs with splits of their own have digests of those that share one: %q and %q", each, all)
	}
}

func TestGridsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		options sweep.Options
		said    []string
		want    string
	}{
		"unknown key":       {said: []string{"epsilom=1"}, want: `--epsilom: unknown key "epsilom"; keys with similar names: epsilon`},
		"twice":             {said: []string{"epsilon=1,5,1"}, want: "--epsilon: epsilon has the value 1 twice"},
		"two values":        {said: []string{"epsilon=1,5", "seed=1", "epsilon=20"}, want: `epsilon is "1,5" by --epsilon and "20" by --epsilon; keep one of the two`},
		"a list of data":    {said: []string{"data=one.csv,two.csv"}, want: "for several: --data one.csv --data two.csv"},
		"backwards":         {said: []string{"seed=5..1"}, want: `"5..1" is not a range FROM..TO`},
		"uneven pairs":      {options: sweep.Options{Zip: []string{"rounds,rank"}}, said: []string{"rounds=1,2", "rank=1,2,3"}, want: "rounds has 2 values and rank has 3"},
		"pair without list": {options: sweep.Options{Zip: []string{"rounds,rank"}}, said: []string{"rounds=1,2"}, want: "rank has no values"},
		"bad condition":     {options: sweep.Options{Skip: []string{"epsilon"}}, said: []string{"epsilon=1"}, want: `"epsilon" is not KEY=VALUE`},
		"bad rule":          {options: sweep.Options{When: []string{"epsilon=1 rank=2"}}, said: []string{"epsilon=1"}, want: "with a colon and a space between"},
		"nothing left":      {options: sweep.Options{Skip: []string{"epsilon=1"}}, said: []string{"epsilon=1"}, want: "every combination is skipped"},
		"cannot be run":     {said: []string{"epsilon=1,-3", "seed=1"}, want: "1 of 2 combinations cannot be run; mend them or leave them out with --skip:\nepsilon=-3: "},
		"one thing wrong":   {said: []string{"epsilon=-3", "seed=1..3"}, want: "3 of 3 combinations cannot be run; mend them or leave them out with --skip:\nseed=1 and 2 more: "},
		"many things wrong": {said: []string{"epsilon=-1,-2,-3,-4,-5,-6,-7,-8,-9,-10,-11,-12"}, want: "and 2 other errors"},
		"a pipe":            {said: []string{"data=/dev/null", "seed=1..2"}, want: "/dev/null: a pipe or standard input can be read once"},
		"standard input":    {said: []string{"data=-", "seed=1..2"}, want: "standard input can be read once"},
		"too many":          {said: []string{"seed=1..100000", "rank=1,2"}, want: "more than 100000 combinations"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := sweep.New(said(c.said...), c.options)
			if err == nil {
				_, err = g.Runs()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sweep.yaml")
	text := "data: synthetic:small\nalgorithm: [lfl-sgdmf, ssp-c]\nepsilon: [1, inf]\nseed: 1..2\nmodel:\n  fit-steps: [10, 20]\nsweep:\n  skip:\n    - algorithm=ssp-c epsilon=inf\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list, o, err := sweep.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g, err := sweep.New(list, o)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := g.Runs()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"lfl-sgdmf 1 1 10", "lfl-sgdmf 1 1 20", "lfl-sgdmf 1 2 10", "lfl-sgdmf 1 2 20", "lfl-sgdmf inf 1 10", "lfl-sgdmf inf 1 20", "lfl-sgdmf inf 2 10", "lfl-sgdmf inf 2 20",
		"ssp-c 1 1 10", "ssp-c 1 2 10"}
	if d := cmp.Diff(want, values(runs, "algorithm", "epsilon", "seed", "model.fit-steps")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// All runs of a sweep start from one release: the newest run is looked up once. Without a look-up they are refused.
func TestLastIsSettledOnce(t *testing.T) {
	g, err := sweep.New(said("algorithm=lfl-sgdmf", "seed=1..3", "start-from=last"), sweep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = g.Runs(); err == nil || !strings.Contains(err.Error(), "name the folder of a run") {
		t.Errorf("%v", err)
	}
	asked := 0
	g.Last = func() (string, error) { asked++; return fmt.Sprintf("/runs/%d", asked), nil }
	runs, err := g.Runs()
	if err != nil {
		t.Fatal(err)
	}
	if got := values(runs, "seed", "start-from"); !slices.Equal(got, []string{"1 /runs/1", "2 /runs/1", "3 /runs/1"}) {
		t.Errorf("%q, after %d look-ups", got, asked)
	}
}
