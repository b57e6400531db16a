package fedsim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/sim"
)

// checkpointEvery is how much time passes before a run writes another checkpoint, at the least,
// and so is what is lost: see [pause]. A run that is over sooner writes none.
var checkpointEvery = time.Second

// pause is how much time passes after a checkpoint that took so long to write. What is large,
// or lies on a slow disk, is written more seldom: writing takes a fiftieth of a run at the most.
func pause(took time.Duration) time.Duration {
	if checkpointEvery == 0 { // every round
		return 0
	}
	return max(checkpointEvery, 50*took)
}

// checkpoint is a run between two rounds, as a file: a hidden one beside the folders of runs,
// named by what is run. Like these it holds what clients keep to themselves.
type checkpoint struct {
	Version  string           // of the program that wrote it: another may compute other bits
	Identity string           // of what is run, and on what
	Given    []config.Setting // of the experiment, to go on where nothing else says what was run
	Rounds   int              // that are over; passes of training in one place
	Metrics  []byte           // results.Metrics of every round, JSON
	Attempts []experiment.Attempt
	Run      sim.Snapshot // of a federation
	Central  []byte       // of training in one place: algorithm.Passes
}

// checkpointDomain begins the file, ends in the version of its form, and is followed by the
// SHA-256 of the rest, which is a gob.
const checkpointDomain = "fedsim/checkpoint/v1\n"

// keeper writes checkpoints of a run, and finds the one to go on from.
type keeper struct {
	path, identity string
	given          []config.Setting
	written        int // rounds in the file; 0: this run has written none
	rounds         int
	least          int       // rounds in a checkpoint that is there and not gone on from: it stays until this run is further
	next           time.Time // when another is due
	failed         error     // of the last attempt to write
	from           *checkpoint
	told           func() // tells where the run goes on
}

// newKeeper makes the keeper of an experiment. With resume it reads the checkpoint, if there is
// one.
func newKeeper(e *experiment.Experiment, p Progress, how Keeping) (*keeper, error) {
	id := Identity(e)
	k := &keeper{told: func() {}, path: filepath.Join(algorithm.Out.Of(e.Config), "."+id[:16]+checkpointExt), identity: id, given: given(e), rounds: roundsOf(e), next: time.Now().Add(checkpointEvery)}
	if !how.Resume {
		if how.Engine == nil {
			k.beside(p)
		}
		return k, nil
	}
	if how.Checkpoint != "" && filepath.Clean(how.Checkpoint) != k.path { // which is named by what is run
		return nil, fmt.Errorf("%s: the checkpoint is of another run, or of other data than there are now; without --resume, or without this file, the run starts anew", how.Checkpoint)
	}
	if r, ok := p.(Resumer); ok {
		k.told = func() { r.Resumed(k.written, k.rounds) }
	}
	c, err := readCheckpoint(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, nil
	case err != nil:
		return nil, err
	case c.Identity != id:
		return nil, fmt.Errorf("%s: the checkpoint is of another run; without --resume, or without this file, the run starts anew", k.path)
	}
	k.from, k.written = c, c.Rounds
	return k, nil
}

// beside looks for a checkpoint that the run could go on from and was not asked to, and says so.
func (k *keeper) beside(p Progress) {
	note := func(string) {}
	if n, ok := p.(Noter); ok {
		note = n.Note
	}
	c, err := readCheckpoint(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		note(fmt.Sprintf("%v; it will be replaced", err))
	case c.Identity == k.identity:
		k.least = c.Rounds
		note(fmt.Sprintf("a checkpoint of this run is there, after round %d of %d (%s); --resume would go on from it. This run begins at round 1, and replaces it once it is further", c.Rounds, k.rounds, k.path))
	}
}

func roundsOf(e *experiment.Experiment) int {
	if c, ok := e.Instance().(algorithm.Central); ok {
		return c.Epochs()
	}
	return e.Schedule.Iterations()
}

// Identity is that of all that a run's bits follow from, but for the program: settings, data and session. It does not
// change with where results go, what files are called and how many goroutines compute.
func Identity(e *experiment.Experiment) string {
	c := e.Config
	for _, key := range []*config.Key{algorithm.Out.Key, algorithm.RunName.Key, algorithm.Workers.Key, algorithm.Data.Key, algorithm.SplitTestFile.Key} {
		c.Reset(key)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%x\n", c.YAML(), e.Data.Digest, e.Split.Digest, e.Session()) //nolint:errcheck // a hash does not fail
	return hex.EncodeToString(h.Sum(nil))
}

func decodeCheckpoint(b []byte) (*checkpoint, error) {
	rest, ok := bytes.CutPrefix(b, []byte(checkpointDomain))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("it is no checkpoint of this form, which begins with %q", checkpointDomain)
	}
	sum, rest := rest[:sha256.Size], rest[sha256.Size:]
	if got := sha256.Sum256(rest); !bytes.Equal(got[:], sum) {
		return nil, errors.New("the checkpoint is damaged: its digest is not that of what it holds")
	}
	var c checkpoint
	if err := gob.NewDecoder(bytes.NewReader(rest)).Decode(&c); err != nil {
		return nil, fmt.Errorf("the checkpoint cannot be read: %w", err)
	}
	if here := programVersion(); c.Version != here {
		return nil, fmt.Errorf("the checkpoint is of fedsim %s, and this is %s, which may compute other bits", c.Version, here)
	}
	return &c, nil
}

func programVersion() string {
	v := version.Get()
	return v.Version + " " + v.Source()
}

// between is called after every round: from time to time it writes the run down. take adds what
// the training is to go on from. That it cannot be written stops no run.
func (k *keeper) between(j *job, take func(*checkpoint) error) error {
	begin := time.Now()
	if begin.Before(k.next) || len(j.result.Metrics) <= k.least {
		return nil
	}
	metrics, err := json.Marshal(j.result.Metrics)
	if err != nil {
		return err
	}
	c := checkpoint{Version: programVersion(), Identity: k.identity, Given: k.given, Rounds: len(j.result.Metrics), Metrics: metrics, Attempts: j.attempts}
	if err = take(&c); err != nil {
		return err
	}
	if k.failed = k.write(c); k.failed == nil {
		k.written = c.Rounds
	}
	end := time.Now()
	k.next = end.Add(pause(end.Sub(begin)))
	return nil
}

func (k *keeper) write(c checkpoint) error {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(c); err != nil {
		return err
	}
	sum := sha256.Sum256(body.Bytes())
	f, err := os.CreateTemp(filepath.Dir(k.path), filepath.Base(k.path)+".*")
	if err != nil {
		return err
	}
	for _, part := range [][]byte{[]byte(checkpointDomain), sum[:], body.Bytes()} {
		if err == nil {
			_, err = f.Write(part)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), k.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// restore puts the job where the checkpoint is.
func (k *keeper) restore(j *job, report func(results.Metrics) error) error {
	var metrics []results.Metrics
	if err := json.Unmarshal(k.from.Metrics, &metrics); err != nil {
		return fmt.Errorf("%s: the checkpoint's metrics: %w", k.path, err)
	}
	j.attempts = k.from.Attempts
	for _, m := range metrics {
		j.result.Metrics = append(j.result.Metrics, m)
		if err := report(m); err != nil {
			return err
		}
	}
	return nil
}

// remove takes the file away, and what a run that was killed while it wrote left of another:
// the run is there as a whole.
func (k *keeper) remove() error {
	dir, name := filepath.Split(k.path)
	all, err := os.ReadDir(filepath.Clean(dir))
	errs := []error{err}
	for _, f := range all {
		if f.Name() == name || strings.HasPrefix(f.Name(), name+".") {
			errs = append(errs, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	for i, err := range errs {
		if errors.Is(err, fs.ErrNotExist) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// stopped is what a run that was stopped says of what is left of it.
func (k *keeper) stopped(err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch {
	case max(k.written, k.least) > 0:
		return &StoppedError{Path: k.path, Round: max(k.written, k.least), Rounds: k.rounds, Err: err, Unwritten: k.failed}
	case k.failed != nil:
		return fmt.Errorf("%w; what was computed cannot be gone on with: %w", err, k.failed)
	default:
		return err
	}
}

// StoppedError is returned for a run that was stopped in the middle, and that can be gone on
// with.
type StoppedError struct {
	Path          string // of its checkpoint
	Round, Rounds int    // that it goes on after, of how many
	Err           error  // why it was stopped
	Unwritten     error  // why rounds after that one are not in the checkpoint; nil where none failed to be written
}

// Error says how to go on.
func (e *StoppedError) Error() string {
	text := fmt.Sprintf("the same command with --resume goes on after round %d of %d, which is in %s", e.Round, e.Rounds, e.Path)
	if e.Unwritten != nil {
		text += fmt.Sprintf("; later rounds could not be written: %v", e.Unwritten)
	}
	return text
}

// Unwrap is why.
func (e *StoppedError) Unwrap() error { return e.Err }
