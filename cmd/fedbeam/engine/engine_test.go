package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	_ "github.com/fedsim/fedsim/lab" // the algorithms of the lab
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
	"github.com/fedsim/fedsim/sim"
)

// workFolder and killFile are environment variables of the tests' worker processes. Each process leaves a file named by
// its process number in the folder workFolder. If the file killFile does not exist, the first process that reaches round
// 2 creates it, and dies.
const (
	workFolder = "FEDBEAM_TEST_WORK"
	killFile   = "FEDBEAM_TEST_KILL"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(workFolder); dir != "" {
		sabotage = func(round, shard int) error {
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o600); err != nil || round != 2 {
				return err
			}
			if f, err := os.OpenFile(os.Getenv(killFile), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				f.Close() //nolint:errcheck // it is empty
				os.Exit(7)
			}
			return nil
		}
	}
	if was, err := ServeAsWorker(context.Background(), os.Args[1:]); was {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	beam.Init()
	dir, err := os.MkdirTemp("", "fedbeam-test-") // Beam leaves a file there for each job, which the command takes away
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if err = os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// small holds settings of short runs of the algorithms. Clients drop out at all stages, leave and go away.
var small = map[string]map[string]string{
	"lfl-sgdmf": {"rounds": "4"},
	"ssp-c":     {"rounds": "2", "rank": "4"},
	"dp-cmf":    {"rounds": "2", "rank": "4"},
	"vfl-sgdmf": {"rounds": "3", "rank": "4", "local-steps": "2"},
	"hfl-sgdmf": {"rounds": "3", "rank": "4", "local-steps": "2"},
}

func opened(t *testing.T, algorithm string, more map[string]string) *experiment.Experiment {
	t.Helper()
	s := map[string]string{"algorithm": algorithm, "data": "synthetic:small", "baselines": "quick", "out": t.TempDir(),
		"dropout": "0.1", "leave": "0.05", "away": "0.1", "away-rounds": "1", "tolerance": "0.3"}
	maps.Copy(s, small[algorithm])
	maps.Copy(s, more)
	c, err := config.Config{}.WithMap(s)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Open(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func train(t *testing.T, e *experiment.Experiment, engine training.Engine) *training.Result {
	t.Helper()
	r, err := training.Keep(t.Context(), e, nil, training.KeepOptions{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// same compares a run with one of the simulator, in all but time and memory.
func same(t *testing.T, got, want *training.Result) {
	t.Helper()
	if len(want.Model.Matrices) == 0 || len(want.Metrics) == 0 {
		t.Fatal("there is nothing to compare")
	}
	if !reflect.DeepEqual(got.Model.Matrices, want.Model.Matrices) {
		t.Error("the model differs from the simulator's")
	}
	if !reflect.DeepEqual(got.Metrics, want.Metrics) {
		t.Errorf("metrics of rounds:\n%+v\nthe simulator's:\n%+v", got.Metrics, want.Metrics)
	}
	g, w := *got.Summary, *want.Summary
	g.Seconds, w.Seconds, g.PeakMemory, w.PeakMemory = nil, nil, 0, 0
	if !reflect.DeepEqual(g, w) {
		t.Errorf("summary:\n%+v\nthe simulator's:\n%+v", g, w)
	}
}

// The simulator is the oracle: another driver of the same roles, with messages, in another order.
func TestEngineIsTheSimulator(t *testing.T) {
	shards := []int{1, 3, 16}
	if testing.Short() {
		shards = []int{3}
	}
	for a := range small {
		t.Run(a, func(t *testing.T) {
			want := train(t, opened(t, a, nil), nil)
			if want.DroppedPerRound == 0 {
				t.Fatal("nobody is lost in this run, which is to show what becomes of that")
			}
			for _, n := range shards {
				var counts Counts
				got := train(t, opened(t, a, nil), New(Options{Runner: Prism, Shards: n, Counted: func(c Counts) { counts = c }}))
				same(t, got, want)
				if counts[Rounds] != int64(want.Rounds) || counts[Inputs] == 0 || counts[Trained] <= counts[Inputs] {
					t.Errorf("%d shards: counted %v in %d rounds, in which clients are lost", n, counts, want.Rounds)
				}
			}
		})
	}
}

// No client is lost if no fault is set; the pipeline relies on that.
func TestWithoutFaults(t *testing.T) {
	none := map[string]string{"dropout": "0", "leave": "0", "away": "0"}
	for _, a := range []string{"lfl-sgdmf", "ssp-c", "hfl-sgdmf"} {
		t.Run(a, func(t *testing.T) {
			same(t, train(t, opened(t, a, none), New(Options{Runner: Prism})), train(t, opened(t, a, none), nil))
		})
	}
}

// Models that are shorter than the schedule says make the books, which rest on it, worth nothing: they are kept anew by what
// was really planned. So it is where items turn out late which are trained on, and where only the final model lacks something.
func TestBooksAreKeptAnew(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		more      map[string]string
		before    bool // the final one
	}{
		{"dp-cmf", map[string]string{"statistics.top-items": "0.3"}, true},
		{"dpsgd", map[string]string{"rounds": "2", "rank": "4", "statistics.per-user": "3"}, false},
	} {
		t.Run(c.algorithm, func(t *testing.T) {
			var shorter []uint64 // rounds
			last := false        // the final model is
			want := train(t, opened(t, c.algorithm, c.more), func(ctx context.Context, e *experiment.Experiment, _ *experiment.Federation, c sim.Config) (*sim.Outcome, error) {
				c.Strategy = &measured{c.Strategy.(server.Durable), e, &shorter}
				out, err := sim.Run(ctx, c)
				last = err == nil && len(out.Model) < e.Schedule[len(e.Schedule)-1].Model
				return out, err
			})
			if c.before != (len(shorter) > 0) || !c.before && !last {
				t.Fatalf("models before rounds %v are shorter than the schedule says, the final one: %v; this run shows nothing", shorter, last)
			}
			same(t, train(t, opened(t, c.algorithm, c.more), New(Options{Runner: Prism})), want)
		})
	}
}

// measured notes in which rounds the model is shorter than the schedule says.
type measured struct {
	server.Durable
	e       *experiment.Experiment
	shorter *[]uint64
}

func (m *measured) Next() (plan *protocol.Plan, done bool, err error) {
	if plan, done, err = m.Durable.Next(); plan != nil && len(plan.Broadcast) < m.e.Schedule.At(plan.Round).Model {
		*m.shorter = append(*m.shorter, plan.Round)
	}
	return plan, done, err
}

// Rounds in which too many are lost release nothing, and cost what they cost.
func TestSkippedRounds(t *testing.T) {
	more := map[string]string{"dropout": "0.3", "tolerance": "0.32"}
	want := train(t, opened(t, "lfl-sgdmf", more), nil)
	if want.SkippedRounds == 0 || want.SkippedRounds == want.Rounds {
		t.Fatalf("%d of %d rounds are skipped; some should be", want.SkippedRounds, want.Rounds)
	}
	same(t, train(t, opened(t, "lfl-sgdmf", more), New(Options{Runner: Prism})), want)
}

// A run is cut into several pipelines. Each pipeline resumes from the state that its predecessor left.
func TestJobsFollowEachOther(t *testing.T) {
	for _, a := range []string{"lfl-sgdmf", "vfl-sgdmf"} {
		jobs := 0
		got := train(t, opened(t, a, nil), New(Options{Runner: Prism, RoundsPerJob: 2, Counted: func(Counts) { jobs++ }}))
		if jobs != 2 {
			t.Errorf("%s: %d jobs of at most 2 rounds", a, jobs)
		}
		same(t, got, train(t, opened(t, a, nil), nil))
	}
}

// Work fails after its trainers have moved and before any result is out: with an error, and with a panic.
func TestFailedWorkIsRepeated(t *testing.T) {
	defer func() { sabotage = func(int, int) error { return nil } }()
	broken := errors.New("the worker broke")
	for _, a := range []string{"lfl-sgdmf", "hfl-sgdmf"} {
		var left, calls atomic.Int32
		left.Store(2)
		sabotage = func(round, shard int) error {
			calls.Add(1)
			if round != 2 || shard != 1 {
				return nil
			}
			switch left.Add(-1) {
			case 1:
				return broken
			case 0:
				panic(broken)
			default:
				return nil
			}
		}
		var failures []string
		got := train(t, opened(t, a, nil), New(Options{Runner: Prism, Shards: 2, Attempts: 3, Retried: func(_ int, err error) { failures = append(failures, err.Error()) }}))
		if len(failures) != 2 || left.Load() > 0 || int(calls.Load()) <= 2*got.Rounds {
			t.Errorf("%s: %d failures of 2, %d pieces of work", a, len(failures), calls.Load())
		}
		for _, f := range failures {
			if !strings.Contains(f, broken.Error()) {
				t.Errorf("%s: failed by %q, not by what was broken", a, f)
			}
		}
		sabotage = func(int, int) error { return nil }
		same(t, got, train(t, opened(t, a, nil), nil))
	}
}

// A shard that fails every time ends the run with an error.
func TestFailureIsReported(t *testing.T) {
	defer func() { sabotage = func(int, int) error { return nil } }()
	sabotage = func(round, shard int) error { return errors.New("the disk is full") }
	_, err := training.Keep(t.Context(), opened(t, "lfl-sgdmf", nil), nil, training.KeepOptions{Engine: New(Options{Runner: Prism, Attempts: 2})})
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("error %v; it does not say what failed", err)
	}
}

// Two processes share the shards. One of them is killed in the middle and started anew.
func TestProcesses(t *testing.T) {
	want := train(t, opened(t, "lfl-sgdmf", nil), nil)
	work, killed := t.TempDir(), filepath.Join(t.TempDir(), "killed")
	t.Setenv(workFolder, work)
	workers := func() int {
		list, err := os.ReadDir(work)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	var counts Counts
	again := 0
	o := Options{Runner: Prism, Processes: 2, Shards: 3, Attempts: 2, Counted: func(c Counts) { counts = c }, Retried: func(int, error) { again++ }}
	same(t, train(t, opened(t, "lfl-sgdmf", nil), New(o)), want)
	if _, err := os.Stat(filepath.Join(work, strconv.Itoa(os.Getpid()))); workers() != 2 || err == nil || again != 0 {
		t.Errorf("%d processes have worked, %d jobs were repeated; two others than the test's should have", workers(), again)
	}
	if counts[Inputs] == 0 {
		t.Errorf("counted %v", counts)
	}
	t.Setenv(killFile, killed)
	same(t, train(t, opened(t, "lfl-sgdmf", nil), New(o)), want)
	if _, err := os.Stat(killed); err != nil || again != 1 || workers() < 5 {
		t.Errorf("%d jobs were repeated, and %d processes have worked, after a worker was killed (%v)", again, workers(), err)
	}
}

// A late write, after a run has ended and its folder is gone, does not bring the folder back.
func TestLateWriting(t *testing.T) {
	x, err := newExchange(t.TempDir(), "0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	if err = x.write(t.Context(), x.turnFile(1), []byte("in time")); err != nil {
		t.Fatal(err)
	}
	if b, failed := x.read(t.Context(), x.turnFile(1)); failed != nil || string(b) != "in time" {
		t.Errorf("read %q, %v", b, failed)
	}
	if err = x.remove(); err != nil {
		t.Fatal(err)
	}
	if err = x.write(t.Context(), x.turnFile(2), []byte("late")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writing when the folder is gone: %v", err)
	}
	if _, err = os.Stat(string(x)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there again: %v", err)
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct{ algorithm, key, value, right string }{
		{"lfl-sgdmf", "secagg", "real", "secagg ideal"},
		{"lfl-sgdmf", "noise-draw", "client", "noise-draw sum"},
		{"sgd-mf", "", "", "fedsim run"},
	} {
		more := map[string]string{"dropout": "0", "leave": "0", "away": "0"}
		if c.key != "" {
			more[c.key] = c.value
		}
		err := Check(opened(t, c.algorithm, more))
		if !cli.IsMisuse(err) || !strings.Contains(err.Error(), c.right) {
			t.Errorf("%s %s=%s: error %v; it should say %q", c.algorithm, c.key, c.value, err, c.right)
		}
	}
}
