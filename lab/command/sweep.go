package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/sweep"
	"github.com/fedsim/fedsim/results"
)

type sweepCmd struct {
	File string `arg:"" optional:"" name:"sweep.yaml" help:"Experiment file in which keys may have lists of values. A flag with other values is an error."`

	verb.KeyFlags

	Seeds string `placeholder:"LIST" help:"Seeds, such as 1..5: --seed by another name. Their runs share the split of the first, unless split.seed is set; auto gives each its own."`
	sweep.Options

	Preset string `placeholder:"NAME" help:"The study of a paper's figure, or all: runs, a page, and what its claims come to. Flags change its grid."`
	Scale  string `enum:"small,full" default:"small" help:"Of a preset: small (generated data of 600 users, three seeds) or full (of MovieLens 1M's shape, five)."`

	Out    string `default:"runs/sweep" placeholder:"DIR" help:"Folder of the sweep. Runs that are finished in it are not run again."`
	Jobs   int    `placeholder:"N" help:"Runs at a time. Default: one for each core, 100 of a cluster."`
	DryRun bool   `help:"List the runs, and stop."`
	Format string `enum:"table,jsonl" default:"table" help:"How to print: table; or jsonl, how far it is as it comes, then the runs and what failed, each a line of JSON with what it is as event."`

	On    string `enum:"local,slurm,kubernetes" default:"local" help:"Where runs are run: local (processes of this machine), slurm (a job array) or kubernetes (an Indexed Job)."`
	Print bool   `help:"Print what slurm or kubernetes would be given, and stop."`

	sweep.Batch
}

func (c *sweepCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Format == "jsonl" && (c.Preset != "" || c.DryRun || c.On != "local") {
		return cli.Misusef("--format jsonl is for runs on this machine; leave out --preset, --dry-run and --on")
	}
	if c.Preset != "" {
		return c.presets(ctx, s)
	}
	runs, err := c.runs(nil, sweep.Options{}, s.Err)
	if err != nil {
		return err
	}
	if c.DryRun {
		return sweep.Print(s.Out, runs)
	}
	out, err := filepath.Abs(c.Out)
	if err != nil {
		return err
	}
	if c.On != "local" {
		return c.batch(ctx, s, out, runs)
	}
	if err = find(ctx, runs); err != nil {
		return err
	}
	f, failures, err := c.local(ctx, s, c.Out, runs)
	if err != nil {
		return err
	}
	return c.conclude(s, f, failures)
}

// runs returns the runs of a preset, whose settings flags replace, or of the file, with the flags.
func (c *sweepCmd) runs(preset []config.Setting, options sweep.Options, warn io.Writer) ([]sweep.Run, error) {
	var said []config.Setting
	options = options.Join(c.Options)
	if c.File != "" {
		inFile, o, err := sweep.ReadFile(c.File)
		if err != nil {
			return nil, err
		}
		said, options = inFile, o.Join(options)
	}
	flags, err := c.Settings()
	if err != nil {
		return nil, err
	}
	if c.Seeds != "" {
		flags = append(flags, config.Setting{Key: algorithm.Seed.Name, Value: c.Seeds, Origin: "--seeds"})
	}
	all, replaced := config.Over(preset, append(said, flags...))
	for _, pair := range replaced {
		verb.WarnReplaced(warn, pair)
	}
	g, err := sweep.New(all, options)
	if err != nil {
		return nil, err
	}
	g.Last = c.last
	return g.Runs()
}

// last returns the newest run in the folder of the sweep that no sweep made, so that a sweep never starts from itself.
func (c *sweepCmd) last() (string, error) {
	own, err := sweep.Names(c.Out)
	if err != nil {
		return "", err
	}
	dir, err := lineage.Newest(c.Out, own...)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// local makes the runs in a folder, in processes of this machine.
func (c *sweepCmd) local(ctx context.Context, s verb.Streams, path string, runs []sweep.Run) (*sweep.Folder, []sweep.Failure, error) {
	f, release, err := prepare(ctx, s, path, runs)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cores := runtime.GOMAXPROCS(0)
	jobs := cmp.Or(max(c.Jobs, 0), cores)
	r := sweep.Runner{Program: program, Jobs: jobs, Workers: max(1, cores/jobs)}
	e, p := verb.Events{W: s.Out}, verb.NewProgress(s.Err)
	defer p.Clear()
	if c.Format == "jsonl" {
		e.Start("runs", len(f.Runs))
		r.Progress = func(x sweep.Progress) { e.Step(x.Finished + x.Failed) }
	} else {
		p.Start("runs", len(f.Runs))
		r.Progress = func(x sweep.Progress) { p.Sparse(x.Finished+x.Failed, x.String()) }
	}
	failures, err := r.Run(ctx, f)
	return f, failures, err
}

// conclude prints what came of it.
func (c *sweepCmd) conclude(s verb.Streams, f *sweep.Folder, failures []sweep.Failure) error {
	if c.Format == "jsonl" {
		done, broken := []map[string]any{}, []map[string]string{} // where runs are and how they differ; and why others failed
		for _, r := range f.Runs {
			if f.Finished(r) {
				done = append(done, map[string]any{"results": filepath.Join(f.Path, r.Name), "varied": r.Varied})
			}
		}
		for _, x := range failures {
			broken = append(broken, map[string]string{"run": x.Run.Name, "error": x.Err.Error(), "log": x.Log})
		}
		line := map[string]any{"event": "sweep", "folder": f.Path, "runs": done, "failed": broken}
		return errors.Join(json.NewEncoder(s.Out).Encode(line), failed(f, failures))
	}
	if len(failures) < len(f.Runs) {
		runs, err := study.Load(s.Warn, folders(f)...)
		if err != nil {
			return err
		}
		said := make(map[string]bool)
		for _, r := range runs {
			for _, n := range r.Summary.Notices {
				if text := n.String(); !said[text] {
					said[text] = true
					verb.Notify([]string{text}, s)
				}
			}
		}
		t := runs.Table().Means([]*config.Key{algorithm.Seed.Key}).Shown()
		if err = t.Print(s.Out); err != nil {
			return err
		}
		err = screen.Print(s.Out, fmt.Sprintf("\n%s in %s\n", units.Counted(len(runs), "run"), f.Path),
			[]string{"fedsim", "results", f.Path}, []string{"fedsim", "report", f.Path}, []string{"fedsim", "plot", f.Path, "--out", "quality.svg"})
		if err != nil {
			return err
		}
	}
	return failed(f, failures)
}

// prepare is [sweep.Prepare], which says what it found damaged. It waits for another sweep of the folder, and release lets the next
// sweep begin.
func prepare(ctx context.Context, s verb.Streams, path string, runs []sweep.Run) (f *sweep.Folder, release func(), err error) {
	release, err = results.Alone(ctx, path, func() {
		fmt.Fprintf(s.Err, "note: another sweep is under way in %s; this sweep waits for its end\n", path)
	})
	if err != nil {
		return nil, nil, err
	}
	if f, err = sweep.Prepare(path, runs); err != nil {
		release()
		return nil, nil, err
	}
	for _, damaged := range f.Damaged {
		s.Warn(damaged)
	}
	for _, data := range f.Changed() {
		s.Warn(fmt.Errorf("%s is newer than finished runs in %s, which stay as they are; for runs of the data as they are now take another --out", data, path))
	}
	return f, release, nil
}

// find reports the first run whose data or other files are not there, before any run begins.
func find(ctx context.Context, runs []sweep.Run) error {
	for _, r := range runs {
		if err := experiment.Find(ctx, r.Config); err != nil {
			return fmt.Errorf("%s cannot begin: %w", r.Name, err)
		}
	}
	return nil
}

// folders returns the folders of the finished runs of a sweep.
func folders(f *sweep.Folder) (dirs []string) {
	for _, r := range f.Runs {
		if f.Finished(r) {
			dirs = append(dirs, filepath.Join(f.Path, r.Name))
		}
	}
	return dirs
}

// failed is the error of runs that did; nil of none.
func failed(f *sweep.Folder, failures []sweep.Failure) error {
	if len(failures) == 0 {
		return nil
	}
	each := func(x sweep.Failure) error { return fmt.Errorf("%s: %w; see %s", x.Run.Name, x.Err, x.Log) }
	return fmt.Errorf("%d of %d runs failed; the same command tries them again:\n%w", len(failures), len(f.Runs), errors.Join(lists.Map(failures, each)...))
}

// batch hands the runs to a cluster.
func (c *sweepCmd) batch(ctx context.Context, s verb.Streams, out string, runs []sweep.Run) error {
	b := c.Batch
	b.Folder, b.Program = out, "fedsim"
	f, err := sweep.At(out, runs)
	if err != nil {
		return err
	}
	if b.Tasks = len(f.Open()); b.Tasks == 0 {
		return c.conclude(s, f, nil)
	}
	b.Jobs = cmp.Or(max(c.Jobs, 0), min(100, b.Tasks))
	if b.MiB == 0 {
		if b.MiB, err = memory(ctx, runs); err != nil {
			return err
		}
	}
	submit, name := []string{"kubectl", "create", "-f"}, "kubernetes.yaml"
	if c.On == "slurm" {
		submit, name = []string{"sbatch"}, "slurm.sh"
		if b.Program, err = os.Executable(); err != nil { // the nodes see the same files
			return err
		}
	}
	if err = find(ctx, runs); err != nil && c.On == "slurm" {
		return err
	} else if err != nil {
		fmt.Fprintf(s.Err, "warning: %v; pods find it only if their image holds it\n", err)
	}
	for _, path := range f.Unseen() {
		if c.On == "kubernetes" {
			fmt.Fprintf(s.Err, "warning: no pod sees %s: the claim is mounted at %s alone. Put it into that folder, and name it by its whole path there; or have the image hold it at this path\n", path, out)
		}
	}
	text, err := b.Fill(name)
	if err != nil {
		return cli.Misusef("%w", err)
	}
	if c.Print {
		_, err = io.WriteString(s.Out, text)
		return err
	}
	f, release, err := prepare(ctx, s, out, runs)
	if err != nil {
		return err
	}
	defer release()
	if err = f.List(); err != nil {
		return err
	}
	path := filepath.Join(out, name)
	if err = os.WriteFile(path, []byte(text), 0o777); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, submit[0], append(submit[1:], path)...)
	cmd.Stdout, cmd.Stderr = s.Out, s.Err
	if err = cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; the file is %s, to be handed in by hand", submit[0], err, path)
	}
	fmt.Fprintf(s.Out, "%d runs are handed in; when they have ended: fedsim results %s\n", b.Tasks, c.Out)
	return nil
}

// memory returns the MiB that a cluster reserves for a run: the largest forecast of all runs, rounded up.
func memory(ctx context.Context, runs []sweep.Run) (int, error) {
	opened, most := make(map[string]bool), uint64(0)
	for _, r := range runs {
		id := algorithm.Data.Of(r.Config) + " " + algorithm.Name.Of(r.Config)
		if opened[id] {
			continue
		}
		opened[id] = true
		e, err := experiment.OpenPacked(ctx, r.Config, nil)
		if err != nil {
			return 0, err
		}
		most = max(most, uint64(forecast.PeakMemory(e)))
	}
	const step = 256
	return step * int(1+(most>>20)/step), nil
}
