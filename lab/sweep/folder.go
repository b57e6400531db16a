package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/lists"
)

// Folder is the folder of a sweep:
//
//	RUN/                  each finished run's own folder, as fedsim run leaves it
//	experiments/RUN.yaml  the file for fedsim run
//	logs/RUN.txt          the output of the run
//	sweep.json            the [Index]
type Folder struct {
	Path string
	Runs []Run
	// Damaged holds an error for each finished run that could not be read when the folder was
	// prepared, with its new path: these runs run again.
	Damaged []error
	index   Index // of its runs and of those before
}

// Index is sweep.json: the runs of a sweep, finished or not, without their settings.
type Index struct {
	Runs []Run `json:"runs"`
}

// Prepare writes the experiment files and the index. Runs of an earlier sweep in the folder
// stay there, and in the index, under their names ([At]).
func Prepare(path string, runs []Run) (*Folder, error) {
	f, err := At(path, runs)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"experiments", "logs"} {
		if err = os.MkdirAll(filepath.Join(path, dir), 0o777); err != nil {
			return nil, err
		}
	}
	if err = f.setAside(); err != nil {
		return nil, err
	}
	for _, r := range f.Runs {
		c := r.Config
		algorithm.Out.Set(&c, path)
		if err = atomicfile.Write(f.experiment(r), c.YAML(), 0o644); err != nil {
			return nil, err
		}
	}
	return f, atomicfile.WriteJSON(filepath.Join(path, "sweep.json"), f.index)
}

// At returns the folder of a sweep, and changes nothing in it. A run that an earlier sweep has there under another name
// gets that name: names have the keys that vary, and a sweep that is continued may vary more.
func At(path string, runs []Run) (*Folder, error) {
	index, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: path, Runs: slices.Clone(runs), index: index}
	names := make(map[string]string)
	for _, e := range index.Runs {
		names[e.Digest] = e.Name
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		if names[r.Digest] == "" {
			f.index.Runs = append(f.index.Runs, *r)
			continue
		}
		r.Name = names[r.Digest]
		algorithm.RunName.Set(&r.Config, r.Name)
	}
	return f, nil
}

// Names returns the names of the runs that sweeps have in a folder, finished or not.
func Names(path string) ([]string, error) {
	index, err := readIndex(path)
	return lists.Map(index.Runs, func(r Run) string { return r.Name }), err
}

// readIndex reads the index of a folder; an empty one of a new folder.
func readIndex(path string) (index Index, err error) {
	_, err = atomicfile.FindJSON(filepath.Join(path, "sweep.json"), &index)
	return index, err
}

func (f *Folder) experiment(r Run) string {
	return filepath.Join(f.Path, "experiments", r.Name+".yaml")
}

func (f *Folder) log(r Run) string { return filepath.Join(f.Path, "logs", r.Name+".txt") }

// Finished reports whether a run is finished: its folder appears when it is complete, and its name
// holds the digest of its configuration. A run whose summary was cut off later is not finished.
func (f *Folder) Finished(r Run) bool { return f.summary(r) == nil }

// summary says why a run has no summary that can be read.
func (f *Folder) summary(r Run) error {
	var of any
	name := filepath.Join(f.Path, r.Name, "summary.json")
	if err := atomicfile.ReadJSON(name, &of); errors.Is(err, fs.ErrNotExist) || err == nil && of != nil {
		return err
	}
	return fmt.Errorf("%s is cut off or damaged", name)
}

// setAside renames the folders of runs whose summary is missing or cannot be read, so that they run again under their names.
func (f *Folder) setAside() error {
	for _, r := range f.Runs {
		why, from := f.summary(r), filepath.Join(f.Path, r.Name)
		if _, err := os.Lstat(from); why == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		to := filepath.Join(f.Path, "."+r.Name+".damaged")
		for n := 2; ; n++ {
			if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
				break
			}
			to = filepath.Join(f.Path, fmt.Sprintf(".%s.damaged-%d", r.Name, n))
		}
		if err := atomicfile.Rename(from, to); err != nil {
			return err
		}
		f.Damaged = append(f.Damaged, fmt.Errorf("%w: the run is made again, and what was there is in %s", why, to))
	}
	return nil
}

// Changed returns the paths of data, test parts, public users and features with a file that is newer than a finished run of them. The digest of
// a run has these paths alone, so that the run stays as it was. The time of a folder tells nothing: results may be written into it.
func (f *Folder) Changed() (list []string) {
	for _, r := range f.Runs {
		made, err := os.Stat(filepath.Join(f.Path, r.Name, "summary.json"))
		if err != nil {
			continue
		}
		newer := func(file string) bool {
			i, failed := os.Stat(file)
			return failed == nil && i.Mode().IsRegular() && i.ModTime().After(made.ModTime())
		}
		look := func(path string) string {
			files, _ := os.ReadDir(path) // of a folder
			inside := func(x os.DirEntry) bool { return newer(filepath.Join(path, x.Name())) }
			if !slices.Contains(list, path) && (newer(path) || slices.ContainsFunc(files, inside)) {
				list = append(list, path)
			}
			return path
		}
		for _, key := range []config.TextKey{algorithm.Data, algorithm.SplitTestFile, algorithm.PublicIDs} {
			look(key.Of(r.Config))
		}
		read.MapFeatureFiles(algorithm.FeatureSpec.Of(r.Config), look)
	}
	return list
}

// Open returns the runs that are not finished.
func (f *Folder) Open() (open []Run) {
	for _, r := range f.Runs {
		if !f.Finished(r) {
			open = append(open, r)
		}
	}
	return open
}

// reason returns the last line of a log as the reason of an error.
func reason(log string, err error) error {
	b, failed := os.ReadFile(log)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := lines[len(lines)-1]; failed == nil && last != "" {
		return fmt.Errorf("%s (%w)", last, err)
	}
	return err
}

// Runner runs the open runs of a sweep in processes of this machine.
type Runner struct {
	// Program is the path of fedsim.
	Program string
	// Jobs is the number of processes that run at a time, and Workers the number of goroutines of
	// each.
	Jobs, Workers int
	// Progress, which may be nil, is called after every run, and at the start.
	Progress func(Progress)
}

// Progress counts the finished runs of a sweep.
type Progress struct {
	All, Finished, Failed, Running int
	Skipped                        int           // finished before the sweep started
	Left                           time.Duration // by the time of the other runs; 0: unknown
}

// String says what is under way and what is left, in a few words.
func (p Progress) String() string {
	note := fmt.Sprintf("%d running", p.Running)
	if p.Skipped > 0 {
		note += fmt.Sprintf(", %d done before", p.Skipped)
	}
	if p.Failed > 0 {
		note += fmt.Sprintf(", %d failed", p.Failed)
	}
	if p.Left > 0 {
		note += ", about " + p.Left.Round(time.Second).String() + " left"
	}
	return note
}

// Failure is a run that ended without a result.
type Failure struct {
	Run Run
	Log string // the file with its output
	Err error
}

// InterruptedError is returned by a sweep whose context ended. Finished runs stay.
type InterruptedError struct {
	Folder        string
	Finished, All int
}

// Error says how many runs are finished, and how to continue.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("interrupted; %d of %d runs are in %s, and the same command continues with the others", e.Finished, e.All, e.Folder)
}

// Kept marks an error that says what is kept.
func (e *InterruptedError) Kept() {}

// Run runs all open runs. A run that fails stops no other run. When ctx ends, Run interrupts the
// running processes and returns an [InterruptedError].
func (r Runner) Run(ctx context.Context, f *Folder) (failures []Failure, err error) {
	open, begin := f.Open(), time.Now()
	p := Progress{All: len(f.Runs), Finished: len(f.Runs) - len(open), Skipped: len(f.Runs) - len(open)}
	report := func() {
		if r.Progress != nil {
			r.Progress(p)
		}
	}
	report()
	ends := make(chan Failure) // or success
	for {
		switch more := len(open) > 0 && ctx.Err() == nil; {
		case more && p.Running < max(r.Jobs, 1):
			run := open[0]
			open = open[1:]
			p.Running++
			report()
			go func() { ends <- Failure{run, f.log(run), r.one(ctx, f, run)} }()
		case p.Running > 0:
			x := <-ends
			if p.Running--; x.Err == nil {
				p.Finished++
			} else {
				p.Failed++
				failures = append(failures, x)
			}
			done := p.Finished - p.Skipped + p.Failed
			p.Left = time.Since(begin) / time.Duration(done) * time.Duration(p.All-p.Finished-p.Failed)
			report()
		case ctx.Err() != nil:
			return failures, &InterruptedError{Folder: f.Path, Finished: p.Finished, All: len(f.Runs)}
		default:
			return failures, nil
		}
	}
}

// patience is the time that an interrupted run has to clean up.
const patience = 20 * time.Second

// one runs the process of a run, unless another sweep of the folder has finished the run by now. The log gets its name when the
// process has ended, so that two sweeps never write to one log.
func (r Runner) one(ctx context.Context, f *Folder, run Run) error {
	if f.Finished(run) {
		return nil
	}
	log, err := os.CreateTemp(filepath.Dir(f.log(run)), run.Name+".*.tmp")
	if err != nil {
		return err
	}
	defer func() { // a log is for people to read, and is no result
		log.Close()                       //nolint:errcheck // likewise
		os.Rename(log.Name(), f.log(run)) //nolint:errcheck // likewise
	}()
	cmd := exec.CommandContext(ctx, r.Program, "run", "--from", f.experiment(run), "--resume", "--workers", strconv.Itoa(r.Workers))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	if _, err = cli.Tie(cmd); err == nil {
		err = cmd.Run()
	}
	if err == nil && !f.Finished(run) {
		err = errors.New("it ended without a result")
	}
	if err != nil && ctx.Err() == nil {
		return reason(log.Name(), err)
	}
	return err
}

// Unwrap is the end of the context.
func (e *InterruptedError) Unwrap() error { return context.Canceled }

// ReadFile reads the file of a sweep: an experiment file in which keys may have lists of
// values, and the lists sweep.zip, sweep.skip and sweep.when of [Options].
func ReadFile(path string) ([]config.Setting, Options, error) {
	var o Options
	all, err := config.ReadLists(path)
	if err != nil {
		return nil, o, err
	}
	var said []config.Setting
	options := map[string]*[]string{"sweep.zip": &o.Zip, "sweep.skip": &o.Skip, "sweep.when": &o.When}
	for _, s := range all {
		if list := options[s.Key]; list != nil {
			*list = append(*list, s.Value)
		} else {
			said = append(said, s)
		}
	}
	return said, o, nil
}

// Join appends options.
func (o Options) Join(more Options) Options {
	return Options{Zip: append(o.Zip, more.Zip...), Skip: append(o.Skip, more.Skip...), When: append(o.When, more.When...)}
}
