package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/fedsim/fedsim/agreement"
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/protocol"
)

var updateGolden = flag.Bool("update-golden", false, "write what runs leave now to testdata/golden; read the difference")

// goldenRuns are small runs of every algorithm, with dropouts, and of the settings that
// take other ways through the code. What they leave must not change unless a change
// means it to: neither a byte of metrics.jsonl, nor of the model, nor of the plan.
var goldenRuns = []struct{ name, flags string }{
	{"lfl-sgdmf", "--algorithm lfl-sgdmf"},
	{"lfl-sgdmf-real", "--algorithm lfl-sgdmf --secagg real --baselines quick --epsilon 40"},
	{"lfl-sgdmf-turns-real", "--algorithm lfl-sgdmf --set cohort.size=10 --rounds 6 --secagg real --baselines quick --epsilon 40"},
	{"lfl-sgdmf-active", "--algorithm lfl-sgdmf --secagg real --mode active --rounds 3 --baselines quick --epsilon 40"},
	{"lfl-sgdmf-all-ratings", "--algorithm lfl-sgdmf --contribution all-ratings --rank 3 --leave 0.2 --away 0.2 --sit-out 0.1 --baselines quick --epsilon 40"},
	{"lfl-sgdmf-replace", "--algorithm lfl-sgdmf --noise replace --rounds 4 --baselines quick"},
	{"lfl-sgdmf-replace-real", "--algorithm lfl-sgdmf --noise replace --rounds 3 --secagg real --baselines quick"},
	{"lfl-sgdmf-local", "--algorithm lfl-sgdmf --noise local --epsilon 40 --baselines quick"},
	{"lfl-sgdmf-local-real", "--algorithm lfl-sgdmf --noise local --rounds 3 --secagg real --epsilon 40 --baselines quick"},
	{"lfl-sgdmf-gdp", "--algorithm lfl-sgdmf --accountant gdp-skellam --epsilon 3 --baselines quick"},
	{"fmf-lfl", "--algorithm fmf-lfl --rank 2 --baselines quick"},
	{"vfl-sgdmf", "--algorithm vfl-sgdmf --dropout 0.1"},
	{"vfl-sgdmf-real", "--algorithm vfl-sgdmf --dropout 0.1 --secagg real --baselines quick --accountant rdp"},
	{"vfl-sgdmf-user", "--algorithm vfl-sgdmf --parties 3 --unit user --item-steps 7 --partition category --clipping both --baselines quick --accountant rdp"},
	{"vfl-sgdmf-alone", "--algorithm vfl-sgdmf --parties 1 --baselines quick --accountant rdp"},
	{"fmf-vfl", "--algorithm fmf-vfl --rank 2"},
	{"dp-sgld", "--algorithm dp-sgld --rounds 12 --baselines quick --accountant rdp"},
	{"dp-sgd", "--algorithm dp-sgd --rounds 12"},
	{"cond-dp", "--algorithm cond-dp --rounds 6"},
	{"cond-dp-real", "--algorithm cond-dp --parties 5 --dropout 0.1 --secagg real --rounds 6 --baselines quick"},
	{"switch-cond-dp", "--algorithm switch-cond-dp --parties 5 --rounds 6 --baselines quick"},
	{"rr-on-bins", "--algorithm rr-on-bins"},
	{"rr-dp-sgd", "--algorithm rr-dp-sgd --rounds 12"},
	{"mlp-dp-sgd", "--algorithm mlp-dp-sgd --rounds 6 --baselines quick --accountant rdp"},
	{"mlp-cond-dp", "--algorithm mlp-cond-dp --rounds 6 --baselines quick --accountant rdp"},
	{"mlp-switch-cond-dp", "--algorithm mlp-switch-cond-dp --rounds 6 --accountant rdp"},
	{"mlp-private", "--algorithm mlp-switch-cond-dp --data synthetic:fields-2000-private --rounds 6 --baselines quick --accountant rdp"},
	{"objective-perturbation", "--algorithm objective-perturbation"},
	{"objective-perturbation-user", "--algorithm objective-perturbation --unit user --rank 2"},
	{"gd-dr", "--algorithm gd-dr --rounds 4"},
	{"hfl-sgdmf", "--algorithm hfl-sgdmf --dropout 0.1 --accountant rdp"},
	{"hfl-sgdmf-real", "--algorithm hfl-sgdmf --dropout 0.1 --secagg real --train both --baselines quick --accountant rdp"},
	{"hfl-synsgd", "--algorithm hfl-synsgd --rounds 8 --baselines quick --accountant rdp"},
	{"hfl-sgdmf-vanilla", "--algorithm hfl-sgdmf --set model.pretrain=no --baselines quick --accountant rdp"},
	{"fmf-hfl", "--algorithm fmf-hfl --rank 2 --baselines quick"},
	{"dpals", "--algorithm dpals --baselines quick --epsilon 40"},
	{"dpals-tail-real", "--algorithm dpals --set statistics.budgeting=tail --secagg real --baselines quick --epsilon 40"},
	{"ada-dpals", "--algorithm ada-dpals --baselines quick --epsilon 40"},
	{"ada-dpals-real", "--algorithm ada-dpals --secagg real --set statistics.bias-first=yes --epsilon 2 --baselines quick"},
	{"dp-cmf", "--algorithm dp-cmf --baselines quick --epsilon 40"},
	{"dp-cmf-real", "--algorithm dp-cmf --secagg real --set statistics.gramian=per-item --baselines quick --epsilon 40"},
	{"ssp-c", "--algorithm ssp-c --epsilon 40"},
	{"ssp-c-real", "--algorithm ssp-c --secagg real --baselines quick --epsilon 40"},
	{"ssp-c-per-item", "--algorithm ssp-c --set statistics.gramian=per-item --features genres --baselines quick --epsilon 40"},
	{"ssp-c-wide", "--algorithm ssp-c --set statistics.top-items=0.3 --set statistics.choose-by=weights --set statistics.broadcast=single --features genres --baselines quick --epsilon 40"},
	{"ssp-c-wide-real", "--algorithm ssp-c --secagg real --set statistics.top-items=9 --set statistics.choose-by=weights --set statistics.broadcast=single --baselines quick --epsilon 40"},
	{"ssp-c-implicit", "--algorithm ssp-c --feedback implicit --set split.validation=0.1 --baselines quick --epsilon 40"},
	{"ssp-c-refined-real", "--algorithm ssp-c --secagg real --set statistics.bias-rounds=3 --set statistics.prior-strength=100 --baselines quick --epsilon 40"},
	{"ssp-c-no-noise", "--algorithm ssp-c --epsilon inf --rank 6 --set split.validation=0.1 --baselines quick"},
	{"ssp-i", "--algorithm ssp-i --rounds 1 --baselines quick --epsilon 40"},
	{"ssp-i-batches", "--algorithm ssp-i --rounds 1 --set statistics.resample=3 --set statistics.sampling-rate=0.5 --baselines quick --epsilon 5"},
	{"ssp-i-real", "--algorithm ssp-i --secagg real --rounds 1 --set statistics.resample=3 --baselines quick --epsilon 40"},
	{"am-ssp", "--algorithm am-ssp --baselines quick --epsilon 40"},
	{"am-ssp-real", "--algorithm am-ssp --secagg real --set encoder.dim=5 --baselines quick --epsilon 40"},
	{"am-ssp-ids", "--algorithm am-ssp-ids --baselines quick --epsilon 40"},
	{"ada-dpals-global", "--algorithm ada-dpals --set statistics.normalise=global --set statistics.count-margin=2 --baselines quick --epsilon 40"},
	{"ada-dpals-top-items", "--algorithm ada-dpals --feedback implicit --set statistics.top-items=0.3 --set split.test=6 --set split.validation=5 --set split.least=3 --set split.target=exact --baselines quick --epsilon 40"},
	{"dp-cmf-top-items-real", "--algorithm dp-cmf --secagg real --set statistics.top-items=9 --baselines quick --epsilon 40"},
	{"ssp-convex", "--algorithm ssp-convex --baselines quick --epsilon 40"},
	{"ssp-convex-real", "--algorithm ssp-convex --secagg real --set statistics.loss=logistic --baselines quick --epsilon 40"},
	{"dpsgd", "--algorithm dpsgd --rounds 2 --baselines quick --epsilon 40"},
	{"dpsgd-tail-real", "--algorithm dpsgd --set statistics.budgeting=tail --rounds 2 --secagg real --baselines quick --epsilon 40"},
	{"ada-dpsgd", "--algorithm ada-dpsgd --rounds 2 --epsilon 40"},
	{"ada-dpsgd-real", "--algorithm ada-dpsgd --set statistics.bias-first=yes --set statistics.resample=3 --rounds 2 --secagg real --baselines quick --epsilon 40"},
	{"am-dpsgd", "--algorithm am-dpsgd --rounds 2 --baselines quick --epsilon 40"},
	{"am-dpsgd-real", "--algorithm am-dpsgd --rounds 2 --set statistics.resample=2 --features genres --secagg real --baselines quick --epsilon 40"},
	{"dp-sgd-mf", "--algorithm dp-sgd-mf --rounds 6 --baselines quick --epsilon 40"},
	{"dp-sgd-mf-real", "--algorithm dp-sgd-mf --rounds 6 --features none --secagg real --baselines quick --epsilon 40"},
	{"private-item-bias", "--algorithm private-item-bias --epsilon 40"},
	{"private-item-bias-implicit", "--algorithm private-item-bias --feedback implicit --baselines quick --epsilon 40"},
	{"private-item-bias-real", "--algorithm private-item-bias --secagg real --baselines quick --epsilon 40"},
	{"sgd-mf", "--algorithm sgd-mf --set model.epochs=4"},
	{"als", "--algorithm als --set als.passes=4"},
}

func TestGolden(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round products that are added otherwise; the files were made on amd64")
	}
	dir := t.TempDir()
	goldenData(t, filepath.Join(dir, "films"))
	for _, g := range goldenRuns {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			if brief() && !slices.Contains(algorithm.Names(), g.name) {
				t.Skip("one run of each algorithm: FEDSIM_TEST_LONG has the others")
			}
			got := goldenRun(t, dir, g.name, g.flags)
			path := filepath.Join("testdata", "golden", g.name+".txtar")
			if *updateGolden {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("(-as it was +as it is):\n%s", d)
			}
		})
	}
}

// goldenRun is what a plan and a run say and leave, but for what depends on the clock.
func goldenRun(t *testing.T, dir, name, flags string) []byte {
	t.Helper()
	words := append(strings.Fields(flags), "--data", filepath.Join(dir, "films"))
	if !strings.Contains(flags, "--parties") && regexp.MustCompile("vfl|hfl").MatchString(name) {
		words = append(words, "--parties", "5")
	}
	if !strings.Contains(flags, "--rounds") && regexp.MustCompile("vfl|hfl").MatchString(name) {
		words = append(words, "--rounds", "12")
	}
	plan, warnings := called(t, append([]string{"plan", "--format", "json"}, slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "--baselines" || w == "quick" })...))
	table, _ := called(t, append([]string{"run", "--out", filepath.Join(dir, name), "--name", "run"}, words...))
	run := filepath.Join(dir, name, "run")
	a := &txtar.Archive{Files: []txtar.File{
		{Name: "plan.json", Data: plan},
		{Name: "warnings", Data: warnings},
		{Name: "stdout", Data: regexp.MustCompile(`results .*\n`).ReplaceAll(table, nil)},
		{Name: "metrics.jsonl", Data: read(t, filepath.Join(run, "metrics.jsonl"))},
		{Name: "summary.json", Data: goldenSummary(t, filepath.Join(run, "summary.json"))},
		{Name: "config", Data: goldenConfig(read(t, filepath.Join(run, "config.yaml")), dir)},
		{Name: "model.sha256", Data: goldenModel(t, run)},
	}}
	if !strings.Contains(flags, "--secagg real") { // what is agreed on is of real sums in any case
		a.Files = append(a.Files, txtar.File{Name: "public.json", Data: goldenPublic(t, words)})
	}
	return txtar.Format(a)
}

// goldenPublic is what parties of a deployment of the same would agree on, or why there is none.
func goldenPublic(t *testing.T, words []string) []byte {
	t.Helper()
	c := newCommands()
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = parser.Parse(append([]string{"run"}, words...)); err != nil {
		t.Fatal(err)
	}
	said, err := c.Run.settings()
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := config.Resolve(said)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), resolved, nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := agreement.Of(e, protocol.SessionID{1})
	if err != nil {
		return []byte(err.Error() + "\n")
	}
	b, err := public.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func called(t *testing.T, args []string) (stdout, stderr []byte) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, streams{out: &out, err: &errs}); code != 0 {
		t.Fatalf("fedsim %s: exit %d\n%s", strings.Join(args, " "), code, errs.Bytes())
	}
	return out.Bytes(), errs.Bytes()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenSummary is summary.json without what the clock and the memory say.
func goldenSummary(t *testing.T, path string) []byte {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal(read(t, path), &s); err != nil {
		t.Fatal(err)
	}
	delete(s, "seconds")
	delete(s, "peak_memory_bytes")
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// goldenConfig is the resolved configuration, a key a line in alphabetical order, so that
// the order in which keys are written may change.
func goldenConfig(yaml []byte, dir string) []byte {
	var lines []string
	section := ""
	parents := []string{}
	for _, line := range strings.Split(strings.TrimSpace(string(yaml)), "\n") {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		parents = append(parents[:depth], key)
		section = strings.Join(parents, ".")
		if value = strings.TrimSpace(value); value != "" && key != "out" && key != "workers" {
			lines = append(lines, section+" = "+strings.ReplaceAll(strings.ReplaceAll(value, `"`, ""), dir, "DIR"))
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n") + "\n")
}

// goldenModel is the digest of each file of the model.
func goldenModel(t *testing.T, run string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(run, "*.npy"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no model: %v", err)
	}
	var b bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(read(t, f)), filepath.Base(f))
	}
	return b.Bytes()
}

// goldenData writes 32 users, 30 films and some 400 ratings: a taste for one of two
// genres, more or less, and a scale of half stars.
func goldenData(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	state := uint32(1)
	next := func(n uint32) uint32 { // Numerical Recipes' generator: any fixed numbers do
		state = state*1664525 + 1013904223
		return state >> 8 % n
	}
	var movies, ratings strings.Builder
	movies.WriteString("movieId,title,genres\n")
	for j := range 30 {
		fmt.Fprintf(&movies, "%d,Film %d (%d),%s\n", j+1, j+1, 1960+2*j, []string{"Comedy", "Drama", "Comedy|Drama", "Western"}[j%4])
	}
	ratings.WriteString("userId,movieId,rating,timestamp\n")
	for u := range 32 {
		for j := range 30 {
			if next(30) < 13 {
				stars := 5 + int(next(4)) - 3*((u+j)%2) + int(next(2))
				fmt.Fprintf(&ratings, "%d,%d,%.1f,%d\n", u+1, j+1, float64(min(max(stars, 1), 10))/2, 1e9+u*100+j)
			}
		}
	}
	for name, text := range map[string]string{"movies.csv": movies.String(), "ratings.csv": ratings.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
