package training

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/results"
)

// keeper writes checkpoints of a run, and finds the checkpoint to continue from.
type keeper struct {
	path, identity string
	given          []config.Setting
	written        int // rounds in the file; 0: this run has written none
	rounds         int
	least          int       // rounds in a checkpoint that is there and not gone on from: it stays until this run is further
	next           time.Time // when another is due
	failed         error     // of the last attempt to write
	from           *checkpoint
	told           func() // tells from which round the run continues
}

// newKeeper makes the keeper of an experiment. With resume it reads the checkpoint, if there is
// one.
func newKeeper(e *experiment.Experiment, p results.Progress, how KeepOptions) (*keeper, error) {
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
	if r, ok := p.(results.Resumer); ok {
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

// beside tells the user of a checkpoint that the run could continue from but was not asked to.
func (k *keeper) beside(p results.Progress) {
	note := func(string) {}
	if n, ok := p.(results.Noter); ok {
		note = n.Note
	}
	c, err := readCheckpoint(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // a file that is named as the folder is refused later
	case err != nil:
		note(fmt.Sprintf("%v; it will be replaced", err))
	case c.Identity == k.identity:
		k.least = c.Rounds
		note(fmt.Sprintf("a checkpoint of this run is there, after round %d of %d (%s); --resume would continue from it. This run begins at round 1, and replaces it once it is further", c.Rounds, k.rounds, k.path))
	}
}

// between is called after every round, and writes a checkpoint if enough time has passed. take adds
// the state that the training continues from. A checkpoint that cannot be written stops no run.
func (k *keeper) between(metrics []results.Metrics, attempts []experiment.Attempt, take func(*checkpoint) error) error {
	begin := time.Now()
	if begin.Before(k.next) || len(metrics) <= k.least {
		return nil
	}
	encoded, err := json.Marshal(metrics)
	if err != nil {
		return err
	}
	c := checkpoint{Version: programVersion(), Identity: k.identity, Given: k.given, Rounds: len(metrics), Metrics: encoded, Attempts: attempts}
	if err = take(&c); err != nil {
		return err
	}
	if k.failed = c.write(k.path); k.failed == nil {
		k.written = c.Rounds
	}
	end := time.Now()
	k.next = end.Add(pause(end.Sub(begin)))
	return nil
}

// restore returns the metrics of the rounds before the checkpoint, and reports each of them.
func (k *keeper) restore(report func(results.Metrics) error) ([]results.Metrics, error) {
	var metrics []results.Metrics
	if err := json.Unmarshal(k.from.Metrics, &metrics); err != nil {
		return nil, fmt.Errorf("%s: the checkpoint's metrics: %w", k.path, err)
	}
	for _, m := range metrics {
		if err := report(m); err != nil {
			return nil, err
		}
	}
	return metrics, nil
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

// stopped makes the error of an interrupted run, which names the checkpoint.
func (k *keeper) stopped(err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch {
	case max(k.written, k.least) > 0:
		return &results.StoppedError{Path: k.path, Round: max(k.written, k.least), Rounds: k.rounds, Err: err, Unwritten: k.failed}
	case k.failed != nil:
		return fmt.Errorf("%w; what was computed cannot be gone on with: %w", err, k.failed)
	default:
		return err
	}
}
