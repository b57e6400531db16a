package training_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/training"
	_ "github.com/fedsim/fedsim/lab" // all algorithms that there are
	"github.com/fedsim/fedsim/results"
)

// resumed are runs of every algorithm, of settings that keep something between rounds, and of
// every kind of sum, with clients that are lost in all ways.
var resumed = []string{
	"algorithm=lfl-sgdmf rounds=4 leave=0.2 away=0.2",
	"algorithm=lfl-sgdmf rounds=4 contribution=all-ratings sit-out=0.1 noise-draw=client",
	"algorithm=lfl-sgdmf rounds=4 secagg=real sit-out=0.1",
	"algorithm=lfl-sgdmf rounds=2 secagg=real mode=active",
	"algorithm=lfl-sgdmf rounds=4 secagg=real cohort.size=8 cohort.over=1.3 leave=0.1",
	"algorithm=lfl-sgdmf rounds=2 noise=replace secagg=real",
	"algorithm=lfl-sgdmf rounds=2 noise=local secagg=real",
	"algorithm=fmf-lfl rounds=2",
	"algorithm=vfl-sgdmf rounds=3 parties=4 accountant=rdp",
	"algorithm=vfl-sgdmf rounds=3 parties=4 accountant=rdp unit=user item-steps=7 clip-ratings=3 secagg=real",
	"algorithm=dp-sgld rounds=3 accountant=rdp item-steps=3",
	"algorithm=fmf-vfl rounds=2 parties=4",
	"algorithm=hfl-sgdmf rounds=3 parties=4 accountant=rdp",
	"algorithm=hfl-sgdmf rounds=3 parties=4 accountant=rdp train=both clip-ratings=3 secagg=real",
	"algorithm=hfl-sgdmf rounds=3 parties=4 accountant=rdp model.pretrain=no",
	"algorithm=hfl-synsgd rounds=3 parties=4 accountant=rdp",
	"algorithm=fmf-hfl rounds=2 parties=4",
	"algorithm=dpals epsilon=200 accountant=rdp statistics.per-user=3",
	"algorithm=dpals epsilon=200 accountant=rdp statistics.per-user=3 statistics.budgeting=tail secagg=real",
	"algorithm=ada-dpals epsilon=200 accountant=rdp",
	"algorithm=dp-cmf epsilon=200 accountant=rdp data=synthetic:small-40",
	"algorithm=dp-cmf epsilon=200 accountant=rdp data=synthetic:small-40 statistics.top-items=0.3",
	"algorithm=ssp-c epsilon=200 accountant=rdp",
	"algorithm=ssp-c epsilon=200 accountant=rdp secagg=real",
	"algorithm=ssp-c epsilon=200 accountant=rdp statistics.top-items=0.3 statistics.choose-by=weights",
	"algorithm=ssp-c epsilon=200 accountant=rdp statistics.bias-rounds=3 statistics.prior-strength=50",
	"algorithm=ssp-i epsilon=200 accountant=rdp rounds=2 statistics.resample=3",
	"algorithm=ssp-i epsilon=200 accountant=gdp-skellam rounds=2 statistics.resample=2 statistics.sampling-rate=0.5",
	"algorithm=am-ssp epsilon=200 accountant=rdp",
	"algorithm=am-ssp-ids epsilon=200 accountant=rdp statistics.normalise=global",
	"algorithm=ssp-convex epsilon=200 accountant=rdp",
	"algorithm=dpsgd epsilon=200 accountant=rdp rounds=2 statistics.per-user=3",
	"algorithm=ada-dpsgd epsilon=200 accountant=rdp rounds=2 secagg=real",
	"algorithm=am-dpsgd epsilon=200 accountant=rdp rounds=2",
	"algorithm=dp-sgd-mf epsilon=200 accountant=rdp rounds=3 secagg=real",
	"algorithm=dp-sgd-mf epsilon=200 accountant=rdp rounds=3 statistics.budgeting=uniform statistics.per-user=3 statistics.bias-first=yes",
	"algorithm=private-item-bias epsilon=200",
	"algorithm=private-ease epsilon=200 pairs.items=9",
	"algorithm=private-ease epsilon=200 pairs.items=9 secagg=real",
	"algorithm=dp-sgd rounds=3",
	"algorithm=cond-dp rounds=3 parties=4 secagg=real",
	"algorithm=switch-cond-dp rounds=3 parties=4",
	"algorithm=objective-perturbation", // of one pass
	"algorithm=rr-on-bins",             // likewise
	"algorithm=rr-dp-sgd rounds=3",     // likewise
	"algorithm=mlp-dp-sgd rounds=3",
	"algorithm=mlp-cond-dp rounds=3",
	"algorithm=mlp-switch-cond-dp rounds=3",
	"algorithm=gd-dr rounds=3",
	"algorithm=sgd-mf model.epochs=3",
	"algorithm=als als.passes=3",
	"algorithm=ease", // one pass: never stopped between two
	"algorithm=item-knn",
	"algorithm=ials rank=3 ials.passes=3", "algorithm=fcf rank=3 fcf.passes=3",
	"algorithm=bpr-mf rank=3 bpr.passes=3",
}

// few are ratings of 12 users.
func few() []fedsim.Rating {
	random := rand.New(rand.NewPCG(1, 2))
	var list []fedsim.Rating
	for u := range 12 {
		for i := range 12 {
			if random.Float64() < 0.6 {
				list = append(list, fedsim.Rating{User: fmt.Sprint("u", u), Item: fmt.Sprint("i", i), Value: float64(1 + random.IntN(5))})
			}
		}
	}
	return list
}

func optionsOf(t *testing.T, out, settings string) fedsim.Options {
	t.Helper()
	o := fedsim.Options{Ratings: few(), Keep: true, Settings: map[string]string{
		"out": out, "name": "run", "rating-min": "1", "rating-max": "5", "baselines": "quick", "dropout": "0.1", "tolerance": "0.4", "delta": "0.001",
	}}
	for word := range strings.FieldsSeq(settings) {
		key, value, _ := strings.Cut(word, "=")
		o.Settings[key] = value
	}
	if strings.Contains(settings, "data=") {
		o.Ratings = nil
		for _, key := range []string{"rating-min", "rating-max"} {
			delete(o.Settings, key)
		}
	}
	if a := o.Settings["algorithm"]; a == "sgd-mf" || a == "als" || a == "objective-perturbation" || a == "gd-dr" || a == "ials" || a == "fcf" || a == "bpr-mf" || a == "ease" || a == "item-knn" || strings.HasPrefix(a, "rr-") {
		for _, key := range []string{"dropout", "tolerance", "delta"} {
			delete(o.Settings, key)
		}
	}
	return o
}

// left returns the files of a run, except files that say when and how long it ran.
func left(t *testing.T, out string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	if err := fs.WalkDir(os.DirFS(out), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "summary.json" || d.Name() == "timings.jsonl" || d.Name() == results.EvidenceFile {
			return err
		}
		b, err := os.ReadFile(filepath.Join(out, path))
		files[path] = strings.ReplaceAll(string(b), out, "OUT")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// TestResumedRunIsTheSame checks that a run that was stopped after any of its rounds, and continued, leaves the files of a
// run without a stop. Every file is equal to the last bit, bytes and virtual seconds of the rounds too.
func TestResumedRunIsTheSame(t *testing.T) {
	training.CheckpointEvery(0)
	t.Cleanup(func() { training.CheckpointEvery(time.Hour) })
	seen := make(map[string]bool)
	for k, settings := range resumed {
		name := strings.TrimPrefix(strings.Fields(settings)[0], "algorithm=")
		seen[name] = true
		if testing.Short() && k%6 > 0 {
			continue
		}
		t.Run(settings, func(t *testing.T) {
			whole := t.TempDir()
			want, err := fedsim.Run(t.Context(), optionsOf(t, whole, settings))
			if err != nil {
				t.Fatal(err)
			}
			for stop := 1; stop < len(want.Metrics); stop++ {
				if stop != len(want.Metrics)/2 && !effort.Long() {
					continue
				}
				out := t.TempDir()
				o := optionsOf(t, out, settings)
				stopped(t, o, stop)
				if len(left(t, out)) != 1 {
					t.Fatalf("stopped after round %d it left %d files", stop, len(left(t, out)))
				}
				o.Resume = true
				told := 0
				o.Progress = hook{start: func(string) {}, round: func(m results.Metrics) { told++ }}
				got, err := fedsim.Run(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if rest := len(want.Metrics) - stop; told != rest {
					t.Errorf("from round %d on %d rounds were computed, not %d", stop, told, rest)
				}
				had, have := left(t, whole), left(t, out)
				for path, b := range had {
					if have[path] != b {
						t.Errorf("stopped after round %d: %s differs:\n%.1500s\n%.1500s", stop, path, b, have[path])
					}
				}
				if len(had) != len(have) {
					t.Errorf("stopped after round %d it left %d files, not %d", stop, len(have), len(had))
				}
				sameSummary(t, want, got)
			}
		})
	}
	for _, name := range fedsim.Algorithms() {
		if !seen[name] {
			t.Errorf("no run of %s is resumed here", name)
		}
	}
}

// stopped runs until a round is over.
func stopped(t *testing.T, o fedsim.Options, round int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o.Progress = hook{start: func(string) {}, round: func(m results.Metrics) {
		if m.Round == round { // it is written down all the same
			stop()
		}
	}}
	_, err := fedsim.Run(ctx, o)
	var s *results.StoppedError
	if !errors.As(err, &s) || !errors.Is(err, context.Canceled) || s.Round != round {
		t.Fatalf("stopped after round %d: %v", round, err)
	}
}

func sameSummary(t *testing.T, want, got *fedsim.Result) {
	t.Helper()
	a, b := *want.Summary, *got.Summary
	for _, s := range []*results.Summary{&a, &b} {
		s.Seconds, s.PeakMemory = map[string]float64{"virtual": s.Seconds["virtual"]}, 0
	}
	if x, y := fmt.Sprintf("%+v", a.Privacy), fmt.Sprintf("%+v", b.Privacy); x != y || a.SkippedRounds != b.SkippedRounds || a.DroppedPerRound != b.DroppedPerRound ||
		fmt.Sprint(a.BytesUpPerClient, a.BytesDownPerClient, a.Seconds, a.Baselines) != fmt.Sprint(b.BytesUpPerClient, b.BytesDownPerClient, b.Seconds, b.Baselines) {
		t.Errorf("the summaries differ:\n%+v\n%+v", a, b)
	}
}

// timings.jsonl has a line for every round, in order, of seconds that are not negative and add up to no more
// than the run took.
func TestTimingsOfRounds(t *testing.T) {
	for _, settings := range []string{"algorithm=lfl-sgdmf rounds=4", "algorithm=sgd-mf model.epochs=3"} {
		out, began := t.TempDir(), time.Now()
		r, err := fedsim.Run(t.Context(), optionsOf(t, out, settings))
		if err != nil {
			t.Fatal(err)
		}
		whole := time.Since(began).Seconds()
		b, err := os.ReadFile(filepath.Join(r.Folder, "timings.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		for k, line := range lines {
			var x results.Timing
			if err := json.Unmarshal([]byte(line), &x); err != nil || x.Round != k+1 || x.Seconds < 0 || x.Measuring < 0 {
				t.Errorf("%s: %s, %v", settings, line, err)
			}
			sum += x.Seconds + x.Measuring
		}
		if len(lines) != len(r.Metrics) || !(sum > 0 && sum <= whole) {
			t.Errorf("%s: %d lines for %d rounds, %v seconds of %v", settings, len(lines), len(r.Metrics), sum, whole)
		}
	}
}

// A checkpoint that is damaged, cut short, or of something else is refused by name, and stays;
// without Resume the run starts anew, and takes it away in the end.
func TestUnusableCheckpoint(t *testing.T) {
	training.CheckpointEvery(0)
	t.Cleanup(func() { training.CheckpointEvery(time.Hour) })
	out := t.TempDir()
	const settings = "algorithm=lfl-sgdmf rounds=4"
	stopped(t, optionsOf(t, out, settings), 2)
	files, err := filepath.Glob(filepath.Join(out, ".*.checkpoint"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for says, b := range map[string][]byte{"damaged": flipped, "its digest": whole[:len(whole)-1], "no checkpoint": []byte("hello"), "of this form": {}} {
		if err = os.WriteFile(files[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		o := optionsOf(t, out, settings)
		o.Resume = true
		if _, err = fedsim.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), files[0]) {
			t.Errorf("%s: %v", says, err)
		}
		if after, failed := os.ReadFile(files[0]); failed != nil || !bytes.Equal(after, b) {
			t.Errorf("%s: the file was touched: %v", says, failed)
		}
	}
	o := optionsOf(t, out, "algorithm=lfl-sgdmf rounds=4 epsilon=3") // another run: its own file
	o.Resume = true
	o.Settings["name"] = "other"
	if _, err = fedsim.Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	if _, err = fedsim.Run(t.Context(), optionsOf(t, out, settings)); err != nil {
		t.Error(err)
	}
	if files, err = filepath.Glob(filepath.Join(out, ".*")); err != nil || len(files) != 0 {
		t.Error("left:", files, err)
	}
}

// noted is a hook that keeps the notes, too.
type noted struct {
	hook
	notes *[]string
}

func (n noted) Note(text string) { *n.notes = append(*n.notes, text) }

// TestCheckpointIsLeftUntilTheRunIsFurther checks the same command without Resume. It says that a checkpoint is there, and its round, and leaves
// the checkpoint until the run is further. A run that is stopped before that can continue from the old checkpoint; stopped after
// it, from its own.
func TestCheckpointIsLeftUntilTheRunIsFurther(t *testing.T) {
	training.CheckpointEvery(0)
	t.Cleanup(func() { training.CheckpointEvery(time.Hour) })
	out := t.TempDir()
	const settings = "algorithm=lfl-sgdmf rounds=4"
	stopped(t, optionsOf(t, out, settings), 2)
	files, err := filepath.Glob(filepath.Join(out, ".*.checkpoint"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	before, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ stop, stands int }{{1, 2}, {3, 3}} {
		ctx, stop := context.WithCancel(t.Context())
		var notes []string
		o := optionsOf(t, out, settings)
		o.Progress = noted{hook{start: func(string) {}, round: func(m results.Metrics) {
			if m.Round == c.stop {
				stop()
			}
		}}, &notes}
		_, err = fedsim.Run(ctx, o)
		stop()
		s, is := errors.AsType[*results.StoppedError](err)
		if !is || s.Round != c.stands || s.Path != files[0] {
			t.Errorf("stopped after round %d: %v; want a checkpoint of round %d", c.stop, err, c.stands)
		}
		if len(notes) != 1 || !strings.Contains(notes[0], "after round 2 of 4 ("+files[0]+"); --resume would continue from it") {
			t.Errorf("it notes %q, want a word about the checkpoint of round 2", notes)
		}
		if after, failed := os.ReadFile(files[0]); failed != nil || bytes.Equal(after, before) != (c.stands == 2) {
			t.Errorf("after round %d the checkpoint of round 2 stands: %v, %v", c.stop, bytes.Equal(after, before), failed)
		}
	}
}

// TestCheckpointThatCannotBeWritten checks that a checkpoint that cannot be written stops no run. Only a run that is
// stopped says that it cannot continue.
func TestCheckpointThatCannotBeWritten(t *testing.T) {
	training.CheckpointEvery(0)
	t.Cleanup(func() { training.CheckpointEvery(time.Hour) })
	out := t.TempDir()
	const settings = "algorithm=lfl-sgdmf rounds=4"
	stopped(t, optionsOf(t, out, settings), 1)
	files, err := filepath.Glob(filepath.Join(out, ".*.checkpoint"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err = os.Remove(files[0]); err == nil { // a folder in its place is never replaced
		err = os.MkdirAll(filepath.Join(files[0], "x"), 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := optionsOf(t, out, settings)
	o.Progress = hook{start: func(string) {}, round: func(m results.Metrics) {
		if m.Round == 2 {
			stop()
		}
	}}
	if _, err = fedsim.Run(ctx, o); err == nil || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "cannot be gone on with") || !strings.Contains(err.Error(), files[0]) {
		t.Errorf("%v", err)
	}
	r, err := fedsim.Run(t.Context(), optionsOf(t, out, settings))
	if r == nil || len(r.Metrics) != 4 || r.Folder == "" {
		t.Fatalf("%v, %v", r, err)
	}
	if left, err := filepath.Glob(filepath.Join(out, ".*.checkpoint.*")); err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestResumedRunIsStoppedAgain checks that a continued run can be stopped again, here after each of its rounds. Some rounds are
// skipped, and clients left, came back or were drawn to sit out before.
func TestResumedRunIsStoppedAgain(t *testing.T) {
	effort.NotShort(t, "whole runs")
	training.CheckpointEvery(0)
	t.Cleanup(func() { training.CheckpointEvery(time.Hour) })
	skipped := 0
	for _, settings := range []string{
		"algorithm=lfl-sgdmf rounds=5 tolerance=0.2 dropout=0.15",
		"algorithm=lfl-sgdmf rounds=5 secagg=real leave=0.3 away=0.3 away-rounds=2 sit-out=0.1",
		"algorithm=hfl-synsgd rounds=4 parties=4 accountant=rdp",
		"algorithm=am-ssp epsilon=200 accountant=rdp rounds=3 secagg=real",
		"algorithm=dp-sgd-mf epsilon=200 accountant=rdp rounds=4 statistics.budgeting=uniform statistics.per-user=3",
	} {
		whole, out := t.TempDir(), t.TempDir()
		want, err := fedsim.Run(t.Context(), optionsOf(t, whole, settings))
		if err != nil {
			t.Fatalf("%s: %v", settings, err)
		}
		skipped += want.Summary.SkippedRounds
		for stop := 1; stop < len(want.Metrics); stop++ {
			o := optionsOf(t, out, settings)
			o.Resume = true
			stopped(t, o, stop)
		}
		o := optionsOf(t, out, settings)
		o.Resume = true
		got, err := fedsim.Run(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", settings, err)
		}
		have := left(t, out)
		for path, b := range left(t, whole) {
			if have[path] != b {
				t.Errorf("%s: %s differs:\n%.1500s\n%.1500s", settings, path, b, have[path])
			}
		}
		sameSummary(t, want, got)
	}
	if skipped == 0 {
		t.Error("no round was skipped, which is to be gone on after, too")
	}
}

// TestPauseBetweenCheckpoints checks that writing takes at most a fiftieth of a run, and happens at most once a second.
func TestPauseBetweenCheckpoints(t *testing.T) {
	training.CheckpointEvery(time.Second)
	t.Cleanup(func() { training.CheckpointEvery(time.Hour) })
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 20 * time.Millisecond: time.Second, 100 * time.Millisecond: 5 * time.Second, time.Minute: 50 * time.Minute} {
		if got := training.Pause(took); got != want {
			t.Errorf("after %v it pauses for %v, want %v", took, got, want)
		}
	}
}

// TestStoppedRunSaysWhatIsThere checks that the message of a stop names the checkpoint, and the rounds that could not be written.
func TestStoppedRunSaysWhatIsThere(t *testing.T) {
	full := errors.New("the disk is full")
	for _, tt := range []struct {
		written int
		failed  error
		want    string
	}{
		{0, nil, "context canceled"},
		{4, nil, "this command with --resume continues after round 4 of 10, which is in runs/.x.checkpoint"},
		{4, full, "this command with --resume continues after round 4 of 10, which is in runs/.x.checkpoint; later rounds could not be written: the disk is full"},
		{0, full, "context canceled; what was computed cannot be gone on with: the disk is full"},
	} {
		if err := training.Stopped(tt.written, tt.failed); err.Error() != tt.want || !errors.Is(err, context.Canceled) {
			t.Errorf("of %d rounds and %v it says %q, want %q", tt.written, tt.failed, err, tt.want)
		}
	}
}

// TestHalfACheckpointIsRemoved checks that a half-written file of a killed run is removed with the checkpoint.
func TestHalfACheckpointIsRemoved(t *testing.T) {
	training.CheckpointEvery(0)
	t.Cleanup(func() { training.CheckpointEvery(time.Hour) })
	out := filepath.Join(t.TempDir(), "runs [a-") // no pattern
	const settings = "algorithm=lfl-sgdmf rounds=3"
	stopped(t, optionsOf(t, out, settings), 1)
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	half := filepath.Join(out, entries[0].Name()+".1234")
	if err = os.WriteFile(half, []byte("fedsim/"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := optionsOf(t, out, settings)
	o.Resume = true
	if _, err = fedsim.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if entries, err = os.ReadDir(out); err != nil || len(entries) != 1 || entries[0].Name() != "run" {
		t.Errorf("left: %v, %v", entries, err)
	}
}
