package lab_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/lab/verify"
	"github.com/fedsim/fedsim/results"
)

// simulate keeps a run with settings such as "rounds=2", and returns its folder.
func simulate(t *testing.T, settings string) string {
	t.Helper()
	list := []config.Setting{{Key: "data", Value: "synthetic:small-100"}, {Key: "baselines", Value: "quick"}, {Key: "out", Value: t.TempDir()}}
	for _, s := range strings.Fields(settings) {
		key, value, _ := strings.Cut(s, "=")
		list = append(list, config.Setting{Key: key, Value: value})
	}
	c, err := config.Resolve(list)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := training.Keep(t.Context(), e, nil, training.KeepOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Folder
}

// verdicts lists what is not true of a folder, as "forged files".
func verdicts(t testing.TB, r *verify.Report) (found []string) {
	t.Helper()
	for _, c := range r.Checks {
		if c.Verdict != verify.OK {
			found = append(found, fmt.Sprintf("%s %s", c.Verdict, c.Subject))
			t.Logf("%s %s: %s", c.Verdict, c.Subject, c.Text)
		}
	}
	return found
}

// edit replaces a text in a file of a folder.
func edit(t testing.TB, dir, name, old, replacement string) {
	t.Helper()
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s has no %q:\n%s", name, old, b)
	}
	if err = os.WriteFile(path, []byte(strings.Replace(string(b), old, replacement, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// cover writes digests of the files as they are now, as a careful forger does.
func cover(t testing.TB, dir string) {
	t.Helper()
	x, err := results.ReadEvidence(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err = results.WriteEvidence(dir, x.Sessions, nil); err != nil {
		t.Fatal(err)
	}
}

// remember replaces the sessions of the evidence.
func remember(t testing.TB, dir string, change func(x *results.Evidence)) {
	t.Helper()
	x, err := results.ReadEvidence(dir)
	if err != nil {
		t.Fatal(err)
	}
	change(x)
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(filepath.Join(dir, results.EvidenceFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// claim replaces every ε of a text by 0.5, in the summary and behind the last round.
func claim(t *testing.T, dir string) {
	t.Helper()
	var s struct {
		Privacy struct{ Epsilon float64 } `json:"privacy"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"summary.json", "metrics.jsonl"} {
		edit(t, dir, name, fmt.Sprintf("%v", s.Privacy.Epsilon), "0.5")
	}
}

func TestHonestSimulationsPass(t *testing.T) {
	for i, settings := range []string{
		"algorithm=lfl-sgdmf rounds=3",
		"algorithm=lfl-sgdmf rounds=2 noise=replace",
		"algorithm=lfl-sgdmf rounds=2 noise=local epsilon=50",
		"algorithm=lfl-sgdmf rounds=2 epsilon=inf",
		"algorithm=vfl-sgdmf rounds=4 dropout=0.3 accountant=rdp",
		"algorithm=am-ssp dropout=0.6",
		"algorithm=lfl-sgdmf rounds=2 chosen-by=plain",
		"algorithm=lfl-sgdmf rounds=3 dropout=0.3",
		"algorithm=private-item-bias",
		"algorithm=private-ease pairs.items=9",
		"algorithm=lfl-sgdmf rounds=2 epsilon=0.5",
		"algorithm=lfl-sgdmf rounds=2 rank=1 start-from=" + simulate(t, "algorithm=lfl-sgdmf rounds=2"),
	} {
		t.Run(settings, func(t *testing.T) {
			if i%4 > 0 {
				effort.NotShort(t, "two whole runs")
			}
			r, err := verify.Folder(t.Context(), simulate(t, settings), verify.Options{Again: true})
			if err != nil {
				t.Fatal(err)
			}
			if found := verdicts(t, r); len(found) > 0 || r.Err() != nil {
				t.Errorf("accused of %v: %v", found, r.Err())
			}
		})
	}
}

// A summary that states no ε of all sessions claims less than holds, and is no forgery.
func TestNoEpsilonOfAllSessionsIsNoLie(t *testing.T) {
	dir := simulate(t, "algorithm=lfl-sgdmf rounds=2 dropout=0 rank=1 start-from="+simulate(t, "algorithm=lfl-sgdmf rounds=2"))
	var s struct {
		All results.AllSessions `json:"all_sessions"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err = errors.Join(err, json.Unmarshal(b, &s)); err != nil {
		t.Fatal(err)
	}
	edit(t, dir, "summary.json", fmt.Sprintf(`"sessions": 2,
    "epsilon": %v,`, *s.All.Epsilon), `"sessions": 2, "epsilon": null,`)
	cover(t, dir)
	r, err := verify.Folder(t.Context(), dir, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if found := verdicts(t, r); slices.Contains(found, "forged history") {
		t.Errorf("accused of %v", found)
	}
}

// Each forgery is found and named. With covered digests it is found by another check. TestHonestSimulationsPass has the folders
// as they were.
func TestForgedSimulationsAreFound(t *testing.T) {
	first := simulate(t, "algorithm=lfl-sgdmf rounds=3 dropout=0 epsilon=5")
	second := simulate(t, "algorithm=lfl-sgdmf rounds=2 dropout=0 rank=1 start-from="+first)
	for name, x := range map[string]struct {
		of    string
		forge func(t *testing.T, dir string)
		again bool
		want  string
	}{
		"ε edited in two files":  {first, claim, false, "forged files"},
		"ε edited, with digests": {first, func(t *testing.T, dir string) { claim(t, dir); cover(t, dir) }, false, "forged epsilon"},
		"ε of the evidence edited": {first, func(t *testing.T, dir string) {
			remember(t, dir, func(x *results.Evidence) { *x.Sessions[0].Epsilon = 1 })
		}, false, "forged epsilon"},
		"a round left out": {first, func(t *testing.T, dir string) {
			remember(t, dir, func(x *results.Evidence) { x.Sessions[0].Events[0].Count = 2 })
		}, false, "forged rounds"},
		"a line of a round left out": {first, func(t *testing.T, dir string) {
			b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(b), "\n")
			edit(t, dir, "metrics.jsonl", lines[1], "")
			cover(t, dir)
		}, false, "forged rounds"},
		"variance edited": {first, func(t *testing.T, dir string) {
			remember(t, dir, func(x *results.Evidence) { x.Sessions[0].Events[0].Variance *= 100 })
		}, false, "forged noise"},
		"variance edited, the other way": {first, func(t *testing.T, dir string) {
			remember(t, dir, func(x *results.Evidence) { x.Sessions[0].Events[0].Variance /= 100 })
		}, false, "forged epsilon"},
		"another configuration": {first, func(t *testing.T, dir string) {
			edit(t, dir, "config.yaml", "epsilon: 5", "epsilon: 0.5")
			cover(t, dir)
		}, false, "forged noise"},
		"another model": {first, func(t *testing.T, dir string) {
			b, err := os.ReadFile(filepath.Join(dir, "item_embeddings.npy"))
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)-1] ^= 1
			if err = os.WriteFile(filepath.Join(dir, "item_embeddings.npy"), b, 0o600); err != nil {
				t.Fatal(err)
			}
			cover(t, dir)
		}, true, "forged model"},
		"another data digest": {first, func(t *testing.T, dir string) {
			edit(t, dir, "manifest.json", `"data_digest": "`, `"data_digest": "0`)
			cover(t, dir)
		}, false, "forged data"},
		"a start hidden": {second, func(t *testing.T, dir string) {
			remember(t, dir, func(x *results.Evidence) { x.Sessions = x.Sessions[1:] })
		}, false, "forged history"},
		"the cost of a start edited": {second, func(t *testing.T, dir string) {
			remember(t, dir, func(x *results.Evidence) { x.Sessions[0].Events[0].Variance *= 100 })
		}, false, "forged history"},
		"a search hidden": {simulate(t, "algorithm=lfl-sgdmf rounds=2 chosen-by=plain"), func(t *testing.T, dir string) {
			edit(t, dir, "summary.json", `"by": "plain"`, `"by": ""`)
			edit(t, dir, "summary.json", `"epsilon": null`, `"epsilon": 5`)
			cover(t, dir)
		}, false, "forged search"},
		"no evidence": {first, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, results.EvidenceFile)); err != nil {
				t.Fatal(err)
			}
		}, false, "unchecked files"},
		"a file removed": {first, func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "split.csv")); err != nil {
				t.Fatal(err)
			}
		}, false, "forged files"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(dir, os.DirFS(x.of)); err != nil {
				t.Fatal(err)
			}
			x.forge(t, dir)
			r, err := verify.Folder(t.Context(), dir, verify.Options{Again: x.again})
			if err != nil {
				t.Fatal(err)
			}
			if found := verdicts(t, r); !slices.Contains(found, x.want) || r.Err() == nil {
				t.Errorf("found %v, want %s; %v", found, x.want, r.Err())
			}
		})
	}
}
