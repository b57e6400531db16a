package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/protocol"
)

var updateGolden = flag.Bool("update-golden", false, "write what runs leave now to testdata/golden.txt; read the difference")

// goldenRuns are small runs of every algorithm, with dropouts, and of the settings that
// take other ways through the code. Their results may change only by intent: no byte
// of metrics.jsonl, of the model, or of the plan.
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
	{"mlp-switch-cond-dp", "--algorithm mlp-switch-cond-dp --rounds 6 --baselines quick --accountant rdp"}, // no figure is kept of its dear baseline
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
	{"ssp-c-wide", "--algorithm ssp-c --set statistics.top-items=0.3 --set statistics.choose-by=weights --features genres --baselines quick --epsilon 40"},
	{"ssp-c-wide-real", "--algorithm ssp-c --secagg real --set statistics.top-items=9 --set statistics.choose-by=weights --baselines quick --epsilon 40"},
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
	{"private-ease", "--algorithm private-ease --baselines quick --epsilon 40 --set pairs.items=30"},
	{"private-ease-real", "--algorithm private-ease --features none --secagg real --baselines quick --epsilon 40 --set pairs.items=30"},
	{"sgd-mf", "--algorithm sgd-mf --set model.epochs=4"},
	{"als", "--algorithm als --set als.passes=4"},
	{"ease", "--algorithm ease --set ease.ridge=20"},
	{"item-knn", "--algorithm item-knn"},
	{"ials", "--algorithm ials --rank 4 --set ials.passes=4"},
	{"fcf", "--algorithm fcf --rank 4 --set fcf.passes=4"},
	{"bpr-mf", "--algorithm bpr-mf --rank 4 --set bpr.passes=4"},
	{"private-item-bias-local", "--algorithm private-item-bias --feedback implicit --noise local --baselines quick --epsilon 40"},
}

// goldenFile holds, for each run, digests of what must not change by a bit on amd64 and ten
// figures that a reader can compare. Other processors round x·y + z otherwise: there only
// the figures are compared, to within goldenTolerance, and accuracy without noise: see goldenExact.
var goldenFile = filepath.Join("testdata", "golden.txt")

// goldenTolerance is relative. Rounding to integers makes a last bit of a product a whole
// step of the fixed point, 1/2^9 of a bound at the coarsest, and few of those meet in a figure.
const goldenTolerance = 0.01

// goldenPlan is the plan of goldenPlanRun, the only plan that is kept in full.
var goldenPlan = filepath.Join("testdata", "golden-plan.json")

const goldenPlanRun = "ssp-c-real"

// ofKinds are runs of one algorithm of each kind, by what its parties compute.
var ofKinds = []string{
	"lfl-sgdmf", "fmf-lfl", "fmf-vfl", "hfl-sgdmf", "cond-dp", "rr-on-bins", "mlp-switch-cond-dp", "objective-perturbation", "gd-dr",
	"ssp-c", "ssp-convex", "am-ssp", "ada-dpals", "dp-cmf", "dpsgd", "dp-sgd-mf", "private-item-bias", "private-ease", "sgd-mf", "als", "ease", "bpr-mf",
	goldenPlanRun,
}

func TestGolden(t *testing.T) {
	dir := t.TempDir()
	goldenData(t, filepath.Join(dir, "films"))
	want := goldenBlocks(t)
	got := make([]string, len(goldenRuns))
	t.Run("runs", func(t *testing.T) {
		for i, g := range goldenRuns {
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				if !*updateGolden && g.name != goldenPlanRun && !slices.Contains(algorithm.Names(), g.name) {
					effort.LongOnly(t, "one run of each algorithm stands for the others")
				}
				if !slices.Contains(ofKinds, g.name) && !*updateGolden {
					effort.NotShort(t, "another algorithm of its kind stands for it")
				}
				var plan []byte
				got[i], plan = goldenRun(t, dir, g.name, g.flags)
				if g.name == goldenPlanRun {
					comparePlan(t, plan)
				}
				if !*updateGolden {
					compareGolden(t, want[g.name], got[i])
				}
			})
		}
	})
	if *updateGolden && !t.Failed() {
		if err := os.WriteFile(goldenFile, []byte(strings.Join(got, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// comparePlan compares a plan with the plan that is kept in full, or writes it there.
func comparePlan(t *testing.T, plan []byte) {
	t.Helper()
	if *updateGolden {
		if err := os.WriteFile(goldenPlan, plan, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if runtime.GOARCH != "amd64" {
		return
	}
	if d := cmp.Diff(string(readFile(t, goldenPlan)), string(plan)); d != "" {
		t.Errorf("(-as it was +as it is):\n%s", d)
	}
}

// goldenBlocks returns the blocks of goldenFile by the name of their run.
func goldenBlocks(t *testing.T) map[string]string {
	t.Helper()
	blocks := map[string]string{}
	for _, block := range strings.Split(string(readFile(t, goldenFile)), "\n\n") {
		name, _, _ := strings.Cut(block, ":")
		blocks[name] = strings.TrimSuffix(block, "\n") + "\n"
	}
	return blocks
}

// compareGolden compares two blocks line by line.
func compareGolden(t *testing.T, want, got string) {
	t.Helper()
	if runtime.GOARCH == "amd64" {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-as it was +as it is):\n%s", d)
		}
		return
	}
	wants, gots := goldenFigures(want), goldenFigures(got)
	if len(wants) == 0 || len(wants) != len(gots) {
		t.Fatalf("%d figures, want %d", len(gots), len(wants))
	}
	noisy := wants["epsilon"] > 0
	for name, w := range wants {
		if noisy && (name == "rmse" || name == "ndcg@10") {
			continue // of other noise: see goldenExact
		}
		near(t, name, gots[name], w, goldenTolerance)
	}
}

// goldenFigures returns the lines of a block that are a name and a number.
func goldenFigures(block string) map[string]float64 {
	figures := map[string]float64{}
	for _, line := range strings.Split(block, "\n") {
		if words := strings.Fields(line); len(words) == 2 {
			if v, err := strconv.ParseFloat(words[1], 64); err == nil {
				figures[words[0]] = v
			}
		}
	}
	return figures
}

// goldenRun plans and runs, and returns the plan and a block: the name with its flags, digests, figures.
func goldenRun(t *testing.T, dir, name, flags string) (block string, plan []byte) {
	t.Helper()
	words := strings.Fields(flags)
	if !slices.Contains(words, "--data") {
		words = append(words, "--data", filepath.Join(dir, "films"))
	}
	if !strings.Contains(flags, "--parties") && regexp.MustCompile("vfl|hfl").MatchString(name) {
		words = append(words, "--parties", "5")
	}
	if !strings.Contains(flags, "--rounds") && regexp.MustCompile("vfl|hfl").MatchString(name) {
		words = append(words, "--rounds", "12")
	}
	plan, _ = called(t, append([]string{"plan", "--format", "json"}, slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "--baselines" || w == "quick" })...))
	called(t, append([]string{"run", "--out", filepath.Join(dir, name), "--name", "run"}, words...))
	run := filepath.Join(dir, name, "run")
	var summary goldenSummary
	if err := json.Unmarshal(readFile(t, filepath.Join(run, "summary.json")), &summary); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", name, flags)
	fmt.Fprintf(&b, "  settings   %x\n", sha256.Sum256(goldenSettings(t, summary.Settings)))
	fmt.Fprintf(&b, "  plan       %x\n", sha256.Sum256(plan))
	fmt.Fprintf(&b, "  metrics    %x\n", sha256.Sum256(readFile(t, filepath.Join(run, "metrics.jsonl"))))
	fmt.Fprintf(&b, "  model      %x\n", goldenModel(t, run))
	if !strings.Contains(flags, "--secagg real") { // what is agreed on is of real sums in any case
		fmt.Fprintf(&b, "  agreement  %x\n", sha256.Sum256(goldenPublic(t, words, summary.Settings)))
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"rounds", summary.Rounds},
		{"dropped", summary.Dropped},
		{"epsilon", summary.Privacy.Epsilon},
		{"delta", summary.Privacy.Delta},
		{"variance", goldenVariance(t, plan)},
		{"bytes-up", total(summary.Up)},
		{"bytes-down", total(summary.Down)},
		{"rmse", summary.RMSE},
		{"baseline", summary.Baselines["item_bias"]},
		{"ndcg@10", goldenNumber(summary.Ranking["ndcg@10"])},
	} {
		fmt.Fprintf(&b, "  %-10s %.6g\n", f.name, f.value)
	}
	return b.String(), plan
}

// goldenSummary holds the fields that goldenRun takes from summary.json. A field that is absent is 0.
type goldenSummary struct {
	Rounds    float64            `json:"rounds"`
	Dropped   float64            `json:"dropped_per_round"`
	RMSE      float64            `json:"test_rmse"`
	Up        map[string]float64 `json:"bytes_up_per_client"`
	Down      map[string]float64 `json:"bytes_down_per_client"`
	Baselines map[string]float64 `json:"baselines"`
	Ranking   map[string]any     `json:"ranking"`
	Settings  map[string]string  `json:"settings"`
	Privacy   struct {
		Epsilon float64 `json:"epsilon"`
		Delta   float64 `json:"delta"`
	} `json:"privacy"`
}

// goldenSettings are the settings that had an effect, in one order.
func goldenSettings(t *testing.T, settings map[string]string) []byte {
	t.Helper()
	b, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenNumber is 0 of what is no number.
func goldenNumber(v any) float64 {
	f, _ := v.(float64)
	return f
}

func total(of map[string]float64) (sum float64) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		sum += of[key]
	}
	return sum
}

// goldenVariance returns the variance of the noise of the plan's last release, in squared
// units of its vector.
func goldenVariance(t *testing.T, plan []byte) float64 {
	t.Helper()
	var p struct {
		Releases []struct {
			Noise struct {
				Variance float64 `json:"value_variance"`
			} `json:"noise"`
		} `json:"releases"`
	}
	if err := json.Unmarshal(plan, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Releases) == 0 {
		return 0
	}
	return p.Releases[len(p.Releases)-1].Noise.Variance
}

// goldenPublic returns the facts on which parties of a deployment of the same run would agree, with the settings
// that have an effect. If there is no deployment it returns the reason.
func goldenPublic(t *testing.T, words []string, effective map[string]string) []byte {
	t.Helper()
	c := newCommands()
	parser, err := program.Parser(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = parser.Parse(append([]string{"run"}, words...)); err != nil {
		t.Fatal(err)
	}
	said, err := c.Run.Settings(io.Discard)
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
	var agreed map[string]any
	if err = json.Unmarshal(b, &agreed); err != nil {
		t.Fatal(err)
	}
	if settings, ok := agreed["config"].(map[string]any); ok {
		maps.DeleteFunc(settings, func(key string, _ any) bool { _, has := effective[key]; return !has })
	}
	if b, err = json.Marshal(agreed); err != nil {
		t.Fatal(err)
	}
	return b
}

func called(t *testing.T, args []string) (stdout, stderr []byte) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, verb.Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("fedsim %s: exit %d\n%s", strings.Join(args, " "), code, errs.Bytes())
	}
	return out.Bytes(), errs.Bytes()
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenModel is a digest of the model's files and their names. A closed form keeps none.
func goldenModel(t *testing.T, run string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(run, "*.npy"))
	if err != nil || len(files) == 0 && !strings.Contains(run, "ease") && !strings.Contains(run, "item-knn") {
		t.Fatalf("there is no model: %v", err)
	}
	digest := sha256.New()
	for _, f := range files {
		fmt.Fprintf(digest, "%x  %s\n", sha256.Sum256(readFile(t, f)), filepath.Base(f))
	}
	return digest.Sum(nil)
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
