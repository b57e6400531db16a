package lab_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/lab/sweep"
)

// stub makes a program in the place of fedsim that runs the script. In the script $name is the
// run's name and $out its folder. No process is forked meanwhile: it would hold the file open for writing, and the system
// starts no program that is open for writing ("text file busy").
func stub(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stub")
	text := "#!/bin/sh\nname=$(sed -n 's/^name: //p' \"$3\")\nout=$(sed -n 's/^out: //p' \"$3\" | tr -d '\"')\n" + script
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

const finishes = "mkdir -p \"$out/$name\" && echo {} > \"$out/$name/summary.json\"\n"

func prepared(t *testing.T) *sweep.Folder {
	t.Helper()
	f, err := sweep.Prepare(filepath.Join(t.TempDir(), "sweep"), runsOf(t, sweep.Options{}, "epsilon=1,5,20"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Two sweeps of one folder at the same time keep their logs apart: the failure of one quotes its own run. A run that the
// other has finished meanwhile is not made again.
func TestTwoSweepsInOneFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	runs := runsOf(t, sweep.Options{}, "epsilon=1,5")
	var folders [2]*sweep.Folder
	for k := range folders {
		var err error
		if folders[k], err = sweep.Prepare(dir, runs); err != nil {
			t.Fatal(err)
		}
	}
	gate := filepath.Join(t.TempDir(), "gate")
	waits := stub(t, "echo first begins; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo first ends\n"+finishes)
	done := make(chan []sweep.Failure)
	go func() {
		failures, _ := sweep.Runner{Program: waits, Jobs: 2, Workers: 1}.Run(t.Context(), folders[0])
		done <- failures
	}()
	second := sweep.Runner{Program: stub(t, "echo another run is under way; exit 2"), Jobs: 2, Workers: 1}
	failures, err := second.Run(t.Context(), folders[1])
	if err != nil || len(failures) != 2 || failures[0].Err.Error() != "another run is under way (exit status 2)" {
		t.Errorf("the second: %v, %v", failures, err)
	}
	if err = os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if failures := <-done; len(failures) != 0 {
		t.Errorf("the first: %v", failures)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "logs", "*"))
	if err != nil || len(logs) != 2 {
		t.Fatalf("logs %q, %v", logs, err)
	}
	for _, log := range logs {
		if b, failed := os.ReadFile(log); failed != nil || string(b) != "first begins\nfirst ends\n" {
			t.Errorf("%s holds %q, %v", log, b, failed)
		}
	}
	late := sweep.Runner{Program: second.Program, Jobs: 1, Workers: 1, Progress: func(p sweep.Progress) {
		if p.Running == 1 && p.Finished == 0 { // the other finishes all runs while the first is under way
			for _, r := range runs {
				finish(t, folders[1], r)
			}
		}
	}}
	if err = os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if folders[1], err = sweep.Prepare(dir, runs); err != nil {
		t.Fatal(err)
	}
	if failures, err := late.Run(t.Context(), folders[1]); err != nil || len(failures) != 0 {
		t.Errorf("runs that are finished by then: %v, %v", failures, err)
	}
}

// finish makes the summary of a run.
func finish(t *testing.T, f *sweep.Folder, r sweep.Run) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(f.Path, r.Name), 0o700); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(f.Path, r.Name, "summary.json"), []byte("{}"), 0o600); err != nil {
		t.Error(err)
	}
}

// A run that fails stops no other run and is listed with the last line of its output. The next call
// runs it alone.
func TestAFailureStopsNoOther(t *testing.T) {
	f := prepared(t)
	last := sweep.Progress{}
	r := sweep.Runner{Program: stub(t, "case $name in *epsilon5-*) echo first >&2; echo no luck >&2; exit 3;; esac\n"+finishes), Jobs: 2, Workers: 1,
		Progress: func(p sweep.Progress) { last = p }}
	failures, err := r.Run(t.Context(), f)
	if err != nil || len(failures) != 1 || !strings.Contains(failures[0].Run.Name, "epsilon5-") || failures[0].Err.Error() != "no luck (exit status 3)" {
		t.Fatalf("%v, %v", failures, err)
	}
	if b, failed := os.ReadFile(failures[0].Log); failed != nil || string(b) != "first\nno luck\n" {
		t.Errorf("the log holds %q, %v", b, failed)
	}
	if last.All != 3 || last.Finished != 2 || last.Failed != 1 || last.Running != 0 {
		t.Errorf("progress %+v", last)
	}
	var ran []string
	for _, open := range f.Open() {
		ran = append(ran, open.Name)
	}
	if len(ran) != 1 || ran[0] != failures[0].Run.Name {
		t.Errorf("still open: %q", ran)
	}
	r.Program = stub(t, finishes)
	if failures, err = r.Run(t.Context(), f); err != nil || len(failures) != 0 || len(f.Open()) != 0 || last.Skipped != 2 {
		t.Errorf("the second time: %v, %v, open %d, progress %+v", failures, err, len(f.Open()), last)
	}
}

// A sweep that is continued with more values, of keys that did not vary before, makes only the runs that are new.
func TestContinuedWithMoreValues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sweep")
	r := sweep.Runner{Program: stub(t, finishes), Jobs: 1, Workers: 1}
	for _, c := range []struct {
		said []string
		open int
	}{
		{[]string{"epsilon=1,5", "seed=1"}, 2},
		{[]string{"epsilon=1,5", "seed=1..3"}, 4},
		{[]string{"epsilon=1", "seed=1..3"}, 0},
		{[]string{"epsilon=1,5,20", "seed=1..3"}, 3},
	} {
		f, err := sweep.Prepare(path, runsOf(t, sweep.Options{}, c.said...))
		if err != nil {
			t.Fatal(err)
		}
		if open := len(f.Open()); open != c.open {
			t.Errorf("%q: %d runs are to be made, want %d", c.said, open, c.open)
		}
		if failures, err := r.Run(t.Context(), f); err != nil || len(failures) != 0 {
			t.Fatalf("%q: %v, %v", c.said, failures, err)
		}
	}
	if folders, err := filepath.Glob(filepath.Join(path, "*", "summary.json")); err != nil || len(folders) != 9 {
		t.Errorf("%q, %v; want 9 runs", folders, err)
	}
}

// A summary that is cut off, as by a full disk or an interrupted copy, is no result. The run is
// made again under its name, its old folder stays beside it, and the sweep says so.
func TestDamagedRunIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := prepared(t)
	r := sweep.Runner{Program: stub(t, finishes), Jobs: 1, Workers: 1}
	if failures, err := r.Run(t.Context(), f); err != nil || len(failures) != 0 {
		t.Fatal(failures, err)
	}
	cut := f.Runs[1].Name
	for range 2 { // the second time another is beside it already
		if err := os.WriteFile(filepath.Join(f.Path, cut, "summary.json"), []byte(`{"test_rm`), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if f, err = sweep.Prepare(f.Path, f.Runs); err != nil {
			t.Fatal(err)
		}
		if open := f.Open(); len(open) != 1 || open[0].Name != cut || len(f.Damaged) != 1 || !strings.Contains(f.Damaged[0].Error(), filepath.Join(cut, "summary.json")) {
			t.Fatalf("open %v, %v; want %s", open, f.Damaged, cut)
		}
		if failures, err := r.Run(t.Context(), f); err != nil || len(failures) != 0 || len(f.Open()) != 0 {
			t.Errorf("%v, %v, open %d", failures, err, len(f.Open()))
		}
	}
	if kept, err := filepath.Glob(filepath.Join(f.Path, "."+cut+".damaged*", "summary.json")); err != nil || len(kept) != 2 {
		t.Errorf("beside the run are %q, %v; want both damaged ones", kept, err)
	}
	for what, content := range map[string]string{"no summary": "", "null": "null", "a name twice": `{"test_rmse":1,"test_rmse":2}`} {
		err := os.Remove(filepath.Join(f.Path, cut, "summary.json"))
		if err == nil && content != "" {
			err = os.WriteFile(filepath.Join(f.Path, cut, "summary.json"), []byte(content), 0o600)
		}
		if err == nil {
			f, err = sweep.Prepare(f.Path, f.Runs)
		}
		if failures, failed := r.Run(t.Context(), f); err != nil || failed != nil || len(failures) != 0 || len(f.Damaged) != 1 {
			t.Errorf("%s: %v, %v, %v; the run is made again, and %v", what, err, failed, failures, f.Damaged)
		}
	}
}

// A sweep that continues after its data changed keeps the runs that are there, and says that they are of other data. The digest of a
// run does not tell. A folder that runs are written into is newer than they are, and its data are not.
func TestChangedDataAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for setting, changed := range map[string]string{
		"data=" + filepath.Join(dir, "[one].csv"): "[one].csv", "data=" + filepath.Join(dir, "set"): filepath.Join("set", "ratings.csv"),
		"split.test-file=" + filepath.Join(dir, "test.csv"): "test.csv", "public-ids=" + filepath.Join(dir, "ids.txt"): "ids.txt",
		"features=genres," + filepath.Join(dir, "genome.csv"): "genome.csv",
	} {
		file := filepath.Join(dir, changed)
		out := filepath.Join(filepath.Dir(file), "sweep")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		f, err := sweep.Prepare(filepath.Join(out, changed), runsOf(t, sweep.Options{}, "epsilon=1,5", setting))
		if err != nil {
			t.Fatal(err)
		}
		if list := f.Changed(); len(list) != 0 {
			t.Errorf("of no finished run %q changed", list)
		}
		for _, r := range f.Runs {
			finish(t, f, r)
		}
		now := time.Now()
		_, path, _ := strings.Cut(setting, "=")
		for after, want := range map[time.Duration][]string{-time.Hour: nil, time.Hour: {strings.TrimPrefix(path, "genres,")}} {
			if err = os.Chtimes(file, now, now.Add(after)); err != nil {
				t.Fatal(err)
			}
			for _, folder := range []string{filepath.Dir(file), out} {
				if err = os.Chtimes(folder, now, now.Add(2*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			if list := f.Changed(); !slices.Equal(list, want) {
				t.Errorf("%s, %v after the runs: %q changed, want %q", changed, after, list, want)
			}
		}
	}
}

func TestNoResultIsAFailure(t *testing.T) {
	failures, err := sweep.Runner{Program: stub(t, "exit 0"), Jobs: 1}.Run(t.Context(), prepared(t))
	if err != nil || len(failures) != 3 || !strings.Contains(failures[0].Err.Error(), "without a result") {
		t.Errorf("%v, %v", failures, err)
	}
}

// When the context ends, running processes are interrupted as by Ctrl-C, and no other begins.
func TestInterruptedSweepGoesOn(t *testing.T) {
	f := prepared(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun := filepath.Join(t.TempDir(), "begun")
	program := stub(t, "trap 'echo cleaned; exit 130' INT\necho >> "+begun+"\nwhile :; do sleep .01; done\n")
	r := sweep.Runner{Program: program, Jobs: 1, Progress: func(p sweep.Progress) {
		if p.Running == 1 {
			go func() {
				for ctx.Err() == nil { // a process on the clock
					if _, err := os.Stat(begun); err == nil {
						stop()
					}
					time.Sleep(time.Millisecond)
				}
			}()
		}
	}}
	_, err := r.Run(ctx, f)
	var interrupted *sweep.InterruptedError
	if !errors.As(err, &interrupted) || interrupted.All != 3 || interrupted.Finished != 0 || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if b, failed := os.ReadFile(begun); failed != nil || string(b) != "\n" {
		t.Errorf("begun: %q, %v", b, failed)
	}
	log, err := os.ReadFile(filepath.Join(f.Path, "logs", f.Runs[0].Name+".txt"))
	if err != nil || string(log) != "cleaned\n" {
		t.Errorf("it said %q, %v", log, err)
	}
}

// A script for Slurm runs as under Slurm: a shell, with the number of the task.
func TestSlurmTasks(t *testing.T) {
	f := prepared(t)
	if _, err := (sweep.Runner{Program: stub(t, "case $name in *epsilon5-*) ;; *) exit 1;; esac\n"+finishes), Jobs: 1}).Run(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := f.List(); err != nil {
		t.Fatal(err)
	}
	b := sweep.Batch{Folder: f.Path, Program: stub(t, finishes), CPUs: 2, MiB: 512, Minutes: 5, Jobs: 10, Tasks: 2}
	text, err := b.Fill("slurm.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"#SBATCH --array=1-2%10\n", "#SBATCH --mem=512M\n", "#SBATCH --cpus-per-task=2\n", "#SBATCH --time=5\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	script := filepath.Join(t.TempDir(), "slurm.sh")
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, task := range []string{"1", "2", "2"} { // one of them is handed in twice
		cmd := exec.Command("bash", script)
		cmd.Env = append(os.Environ(), "SLURM_ARRAY_TASK_ID="+task)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("task %s: %v\n%s", task, err, out)
		}
	}
	if open := f.Open(); len(open) != 0 {
		t.Errorf("%d runs are open", len(open))
	}
}

// The manifest is YAML that says what the API reference asks of an Indexed Job.
func TestKubernetesJob(t *testing.T) {
	b := sweep.Batch{Folder: "/data/sweep", Program: "fedsim", CPUs: 2, MiB: 768, Minutes: 5, Jobs: 10, Tasks: 36, Image: "registry/fedsim:v1", Claim: "studies"}
	text, err := b.Fill("kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Spec       struct {
			CompletionMode           string `yaml:"completionMode"`
			Completions, Parallelism int
			Template                 struct {
				Spec struct {
					RestartPolicy         string `yaml:"restartPolicy"`
					ActiveDeadlineSeconds int    `yaml:"activeDeadlineSeconds"`
					Containers            []struct {
						Image     string
						Args      []string
						Resources struct{ Limits map[string]string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	s, pod := job.Spec, job.Spec.Template.Spec
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || s.CompletionMode != "Indexed" || s.Completions != 36 || s.Parallelism != 10 ||
		pod.RestartPolicy != "Never" || pod.ActiveDeadlineSeconds != 300 || len(pod.Containers) != 1 || pod.Containers[0].Image != "registry/fedsim:v1" ||
		pod.Containers[0].Resources.Limits["memory"] != "768Mi" || !strings.Contains(pod.Containers[0].Args[0], "JOB_COMPLETION_INDEX") {
		t.Errorf("%+v", job)
	}
}

func TestFoldersThatAShellWouldRead(t *testing.T) {
	for _, folder := range []string{"/data/it's", "/data/$(id)", "/data/a`b`", "/data/\nx"} {
		if _, err := (sweep.Batch{Folder: folder}).Fill("slurm.sh"); err == nil {
			t.Errorf("%q passes", folder)
		}
	}
}

// Pods see the folder of the sweep alone. A file beside the folder and a file of the working directory are out of their sight.
func TestUnseenFiles(t *testing.T) {
	outside, folder := filepath.Join(t.TempDir(), "ratings.csv"), t.TempDir()
	inside := filepath.Join(folder, "ratings.csv")
	for _, path := range []string{outside, inside} {
		if err := os.WriteFile(path, []byte("user,item,rating\n1,1,5\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for data, unseen := range map[string][]string{outside: {outside}, inside: nil, "sweep_run_test.go": {"sweep_run_test.go"}, "synthetic:small": nil, "ratings.csv": nil} {
		f, err := sweep.At(folder, runsOf(t, sweep.Options{}, "data="+data, "epsilon=1", "epsilon=2"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Unseen(); !slices.Equal(got, unseen) {
			t.Errorf("of data=%s no pod sees %q, want %q", data, got, unseen)
		}
	}
}
