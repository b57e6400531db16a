package external_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/algorithm/external"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/internal/training"
)

// behaviour is the variable that makes this binary a program of the algorithm. Its value says which.
const behaviour = "FEDSIM_TEST_EXTERNAL"

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviour); how != "" {
		answer(how, bufio.NewReader(os.Stdin), os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// header is a message of the protocol as algorithm/external/external.md has it.
type header struct {
	Version int    `json:"fedsim"`
	Type    string `json:"type"`
	Round   int    `json:"round"`
	Frames  []struct {
		Name  string `json:"name"`
		Bytes int    `json:"bytes"`
	} `json:"frames"`
	Problem struct {
		ItemIDs []string `json:"item_ids"`
	} `json:"problem"`
}

// answer is a program that knows the protocol by its description alone. It counts how many users rated each item.
func answer(how string, in *bufio.Reader, out io.Writer) {
	items, seen := 0, 0.
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var h header
		if json.Unmarshal(line, &h) != nil || h.Version != 1 {
			os.Exit(3)
		}
		arrays := make(map[string][]byte)
		for _, f := range h.Frames {
			b := make([]byte, f.Bytes)
			if _, err := io.ReadFull(in, b); err != nil {
				return
			}
			arrays[f.Name] = b[10+int(binary.LittleEndian.Uint16(b[8:])):]
		}
		if h.Type == how {
			fmt.Fprintln(out, "what a program must not print") //nolint:errcheck // the test sees it
		}
		write, kind := bufio.NewWriter(out), "" // the answers to a request go out together
		switch how {
		case "answers twice at " + h.Type:
			kind = "twice"
		case "answers otherwise at " + h.Type:
			kind = "otherwise"
		}
		reply := func(_ io.Writer, head, name string, shape []int, x []float64) {
			if kind == "otherwise" {
				head = strings.ReplaceAll(head, "ed\"", "ing\"")
			}
			reply(write, head, name, shape, x)
			if kind == "twice" {
				reply(write, head, name, shape, x)
			}
			write.Flush() //nolint:errcheck // the test sees it
		}
		if how == "hangs at "+h.Type {
			select {}
		}
		if how == "closes its output at "+h.Type {
			os.Stdout.Close() //nolint:errcheck // the test sees it
			select {}
		}
		switch h.Type {
		case "open":
			items = len(h.Problem.ItemIDs)
			bound := ""
			if how == "batches beside a huge coordinate" {
				bound = `,"linf":1`
			}
			reply(out, fmt.Sprintf(`"type":"opened","name":"count","release":{"length":%d,"l2":20%s}`, items, bound), "model", []int{items, 1}, make([]float64, items))
		case "contribute":
			start, item := arrays["start"], arrays["item"]
			n := len(start)/8 - 1
			v := make([]float64, n*items)
			for u := range n {
				for k := whole(start, u); k < whole(start, u+1); k++ {
					v[u*items+whole(item, k)] = 1
				}
				if how == "empty" {
					v[u*items] = 1 // also of a user without ratings
				}
				if how == "remembers" {
					v[u*items] += seen / 10
				}
				if how == "batches" || how == "batches with a process beside it" {
					v[u*items] += float64(n)
				}
				if how == "batches beside a huge coordinate" { // which clips to 1
					v[u*items], v[u*items+1] = 1e12, float64(n)/12
				}
			}
			seen += float64(len(item) / 8) // ratings
			reply(out, `"type":"contributed"`, "vectors", []int{n, items}, v)
		case "absorb":
			sum := floats(arrays["sum"])
			if how == "absorbs" {
				sum[0] += seen
			}
			reply(out, `"type":"absorbed"`, "model", []int{items, 1}, sum)
		case "predict":
			start := arrays["start"]
			n := len(start)/8 - 1
			all := make([]float64, n*items)
			for i := range all {
				u := i / items
				all[i] = 1 + float64(i%items)/4 + float64(whole(start, u+1)-whole(start, u))/10
				if how == "predicts by others" || how == "predicts what is wanted by others" && arrays["want_start"] != nil {
					all[i] += float64(n) / 10
				}
			}
			if first := arrays["want_start"]; how == "wanted" && first != nil {
				var some []float64
				for u := range n {
					for k := whole(first, u); k < whole(first, u+1); k++ {
						some = append(some, all[u*items+whole(arrays["want_item"], k)])
					}
				}
				reply(out, `"type":"predicted"`, "predicted", []int{len(some)}, some)
				continue
			}
			reply(out, `"type":"predicted"`, "predicted", []int{n, items}, all)
		}
	}
}

func whole(b []byte, i int) int { return int(binary.LittleEndian.Uint64(b[8*i:])) }

func floats(b []byte) []float64 {
	x := make([]float64, len(b)/8)
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return x
}

// reply writes a message with one array.
func reply(w io.Writer, head, name string, shape []int, x []float64) {
	size := ""
	for _, n := range shape {
		size += fmt.Sprintf("%d, ", n)
	}
	npy := fmt.Sprintf("{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }\n", size)
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(npy)), byte(len(npy)>>8))
	b = append(b, npy...)
	for _, y := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(y))
	}
	fmt.Fprintf(w, "{%s,\"frames\":[{\"name\":%q,\"bytes\":%d}]}\n", head, name, len(b)) //nolint:errcheck // the test sees it
	w.Write(b)                                                                           //nolint:errcheck // likewise
}

// run runs the algorithm on ratings of twelve users.
func run(t *testing.T, how string, settings map[string]string) (*fedsim.Result, error) {
	t.Helper()
	return runIn(t.Context(), t, how, settings)
}

func runIn(ctx context.Context, t *testing.T, how string, settings map[string]string) (*fedsim.Result, error) {
	t.Helper()
	words := []string{os.Args[0]}
	if strings.HasSuffix(how, "with a process beside it") {
		words = []string{"/bin/sh", "-c", `sleep 600 >"$BESIDE" & exec "$0"`, os.Args[0]}
	}
	text, err := json.Marshal(words)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FEDSIM_EXTERNAL", string(text))
	t.Setenv(behaviour, how)
	var list []fedsim.Rating
	for u := range 12 {
		for j := range 6 {
			if (u+j)%3 > 0 {
				list = append(list, fedsim.Rating{User: fmt.Sprint(u), Item: fmt.Sprint(j), Value: float64(1 + (u*j)%5)})
			}
		}
	}
	all := map[string]string{"algorithm": "external", "rounds": "1", "dropout": "0", "epsilon": "inf", "baselines": "quick"}
	for k, v := range settings {
		all[k] = v
	}
	return fedsim.Run(ctx, fedsim.Options{Ratings: list, RatingMin: 1, RatingMax: 5, Settings: all})
}

// TestSumIsOfAllUsers checks the model, which is the exact sum, against counts.
func TestSumIsOfAllUsers(t *testing.T) {
	for _, secagg := range []string{"ideal", "real"} {
		r, err := run(t, "count", map[string]string{"secagg": secagg})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.
		for _, x := range r.Model.Matrices[0].Data() {
			sum += x
		}
		const ratings, test = 48, 5 // a tenth, rounded up
		if math.Abs(sum-(ratings-test)) > 1 {
			t.Errorf("%s: the sums add up to %v, want %d", secagg, sum, ratings-test)
		}
	}
}

// TestEndOfARunStopsItsPrograms has programs that hang at each request. Their limit is an hour.
func TestEndOfARunStopsItsPrograms(t *testing.T) {
	for _, how := range []string{"contribute", "absorb", "predict"} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := runIn(ctx, t, "hangs at "+how, map[string]string{"external.limit": "3600"}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want that it was cancelled", how, err)
		}
	}
}

// TestWrongProgramsAreNamed checks that no program makes a run hang or fail without its reason.
func TestWrongProgramsAreNamed(t *testing.T) {
	for how, says := range map[string]string{
		"open": "external: open: its reply does not follow the protocol", "contribute": "contribute of round 1, for 12 users: its reply does not follow",
		"absorb": "absorb of round 1: its reply", "predict": "must print to stderr",
	} {
		if _, err := run(t, how, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", how, err, says)
		}
	}
	t.Setenv("FEDSIM_EXTERNAL", "")
	if _, err := fedsim.Run(t.Context(), fedsim.Options{Algorithm: "external", Settings: map[string]string{"data": "synthetic:small"}}); err == nil || !strings.Contains(err.Error(), "set FEDSIM_EXTERNAL to it") {
		t.Errorf("without a program: %v", err)
	}
	t.Setenv("FEDSIM_EXTERNAL", "/nowhere/program")
	if _, err := fedsim.Run(t.Context(), fedsim.Options{Algorithm: "external", Settings: map[string]string{"data": "synthetic:small"}}); err == nil || !strings.Contains(err.Error(), "/nowhere/program") {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestEachRequestHasOneAnswer has programs whose answers belong to no request, or to the next: then each later user would get
// another user's vector.
func TestEachRequestHasOneAnswer(t *testing.T) {
	for _, kind := range []string{"open", "contribute", "absorb", "predict"} {
		for how, says := range map[string]string{"answers twice at ": "it wrote more than the answer", "answers otherwise at ": `it answered "`} {
			_, err := run(t, how+kind, map[string]string{"rounds": "2"})
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s%s: %v, want %q", how, kind, err, says)
			}
		}
	}
}

// TestFailedRunLeavesNoProcess has programs that each started a process. The program of the clients ends the run.
func TestFailedRunLeavesNoProcess(t *testing.T) {
	gone := external.Beside(t)
	if _, err := run(t, "batches with a process beside it", map[string]string{"epsilon": "5", "rounds": "2"}); err == nil {
		t.Error("vectors that depend on the batch are taken")
	}
	gone()
}

// TestEditedProgramIsAnotherRun edits a program of several files. The ε of a private search covers only the run that won, and a checkpoint
// continues only its own run.
func TestEditedProgramIsAnotherRun(t *testing.T) {
	t.Setenv(behaviour, "count")
	t.Setenv("PROGRAM", os.Args[0])
	of := func(dir, arguments string, files map[string]string) [2]string {
		t.Helper()
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("FEDSIM_EXTERNAL", "/bin/sh "+filepath.Join(dir, "own.sh")+" "+arguments)
		e := opened.Experiment(t, "data=synthetic:small-100 algorithm=external epsilon=5 rounds=1")
		return [2]string{e.Fingerprint(), training.Identity(e)}
	}
	here, there := t.TempDir(), t.TempDir()
	first := of(here, "a", map[string]string{"own.sh": `exec "$PROGRAM"`, "part.sh": "", "notes.txt": ""})
	if again := of(there, "a", map[string]string{"own.sh": `exec "$PROGRAM"`, "part.sh": ""}); again != first {
		t.Errorf("the same program elsewhere makes another run: %v, %v", again, first)
	}
	for what, got := range map[string][2]string{
		"another argument":        of(there, "b", nil),
		"another file beside it":  of(there, "a", map[string]string{"part.sh": "#"}),
		"another program by name": of(here, "a", map[string]string{"own.sh": ` exec "$PROGRAM"`}),
	} {
		if got[0] == first[0] || got[1] == first[1] {
			t.Errorf("%s makes the same run: %v", what, got)
		}
	}
}

// TestVectorsOfOtherUsersAreRefused has programs whose vectors depend on the batch, or on what was asked before.
func TestVectorsOfOtherUsersAreRefused(t *testing.T) {
	for _, how := range []string{"remembers", "batches", "batches beside a huge coordinate"} {
		_, err := run(t, how, map[string]string{"epsilon": "5"})
		if err == nil || !strings.Contains(err.Error(), "depends on other users' ratings") {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestPredictionsByOtherUsersAreRefused has a program that predicts by the batch. A run without noise states no ε, and is not checked.
func TestPredictionsByOtherUsersAreRefused(t *testing.T) {
	_, err := run(t, "predicts by others", map[string]string{"epsilon": "5"})
	if err == nil || !strings.Contains(err.Error(), "Predict must be pure") {
		t.Errorf("predictions by other users' ratings: %v", err)
	}
	if _, err = run(t, "predicts by others", nil); err != nil {
		t.Errorf("without noise: %v", err)
	}
	// Before the last round only some items are asked for.
	_, err = run(t, "predicts what is wanted by others", map[string]string{"epsilon": "5", "rounds": "2"})
	if err == nil || !strings.Contains(err.Error(), "Predict must be pure") {
		t.Errorf("predictions of some items by other users' ratings: %v", err)
	}
}

// TestServersProgramSeesNoRatings compares a program whose server's step adds the number of ratings that it has seen with
// a program that adds nothing.
func TestServersProgramSeesNoRatings(t *testing.T) {
	var sums [2]float64
	for i, how := range []string{"count", "absorbs"} {
		r, err := run(t, how, map[string]string{"rounds": "2"})
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = r.Model.Matrices[0].Row(0)[0]
	}
	if sums[0] != sums[1] {
		t.Errorf("the model holds %v with ratings that the server's program has seen, and %v without", sums[1], sums[0])
	}
}

// TestWantedPredictions compares a program that predicts what is wanted with a program that always predicts all items.
func TestWantedPredictions(t *testing.T) {
	for _, settings := range []map[string]string{{"rounds": "3"}, {"rounds": "3", "eval.top-k": "2", "split.validation": "0.2"}} {
		all, err := run(t, "all", settings)
		if err != nil {
			t.Fatal(err)
		}
		some, err := run(t, "wanted", settings)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all.Metrics, some.Metrics); diff != "" || len(all.Metrics) != 3 || !(all.Metrics[0].RMSE > 0) {
			t.Errorf("%d rounds (-all +wanted):\n%s", len(all.Metrics), diff)
		}
		if diff := cmp.Diff(all.Ranking, some.Ranking, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" || all.Ranking == nil {
			t.Errorf("lists (-all +wanted):\n%s", diff)
		}
	}
}
