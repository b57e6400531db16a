package training

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
	"syscall"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/sim"
)

// checkpointer writes checkpoints of a run, and finds the checkpoint to continue from.
type checkpointer struct {
	path, identity string
	written        int // rounds in the file; 0: this run has written none
	rounds         int
	unresumedRound int       // rounds in a checkpoint that is there and not gone on from: it stays until this run is further
	next           time.Time // when another is due
	failed         error     // of the last attempt to write
	from           *checkpoint
	resumer        results.Resumer // hears the round from which the run continues; it may be nil
}

// newCheckpointer makes the checkpointer of an experiment. To resume, it reads the checkpoint, if there is one.
func newCheckpointer(e *experiment.Experiment, p results.Progress, how KeepOptions) (*checkpointer, error) {
	id := Identity(e)
	k := &checkpointer{path: filepath.Join(algorithm.Out.Of(e.Config), "."+id[:16]+checkpointExt), identity: id, rounds: roundsOf(e), next: time.Now().Add(checkpointEvery)}
	if !how.Resume {
		if how.Engine == nil {
			k.noteUnresumed(p)
		}
		return k, nil
	}
	k.resumer, _ = p.(results.Resumer)
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

// noteUnresumed notes a checkpoint that the run could continue from but was not asked to.
func (k *checkpointer) noteUnresumed(p results.Progress) {
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
		k.unresumedRound = c.Rounds
		note(fmt.Sprintf("a checkpoint of this run is there, after round %d of %d (%s); --resume would continue from it. This run begins at round 1, and replaces it once it is further", c.Rounds, k.rounds, k.path))
	}
}

// afterRound is called after every round, and writes a checkpoint if enough time has passed. take adds
// the state that the training continues from. A checkpoint that cannot be written stops no run.
func (k *checkpointer) afterRound(metrics []results.Metrics, attempts []experiment.Attempt, take func(*checkpoint) error) error {
	begin := time.Now()
	if begin.Before(k.next) || len(metrics) <= k.unresumedRound {
		return nil
	}
	encoded, err := json.Marshal(metrics)
	if err != nil {
		return err
	}
	c := checkpoint{Version: version.Program(), Identity: k.identity, Rounds: len(metrics), Metrics: encoded, Attempts: attempts}
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
func (k *checkpointer) restore(report func(results.Metrics) error) ([]results.Metrics, error) {
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

// remove takes the file away, and drafts of it that a killed run left: the run is there as a whole.
func (k *checkpointer) remove() error {
	dir, name := filepath.Split(k.path)
	all, err := os.ReadDir(filepath.Clean(dir))
	for _, f := range all {
		if f.Name() == name || strings.HasPrefix(f.Name(), name+".") {
			if failed := os.Remove(filepath.Join(dir, f.Name())); !errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) { // there is no folder of runs
		return nil
	}
	return err
}

// stopped makes the error of an interrupted run, which names the checkpoint.
func (k *checkpointer) stopped(err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch {
	case max(k.written, k.unresumedRound) > 0:
		return &results.StoppedError{Path: k.path, Round: max(k.written, k.unresumedRound), Rounds: k.rounds, Err: err, Unwritten: k.failed}
	case k.failed != nil:
		return fmt.Errorf("%w; what was computed cannot be gone on with: %w", err, k.failed)
	default:
		return err
	}
}

// checkpointEvery is the least time between two checkpoints of a run, and so the work that an interruption
// loses: see [pause]. A shorter run writes no checkpoint.
var checkpointEvery = time.Second

// pause returns the time to wait after a checkpoint, given the time that writing it took. Large checkpoints, and checkpoints on
// a slow disk, are rarer: writing takes at most a fiftieth of a run.
func pause(took time.Duration) time.Duration {
	if checkpointEvery == 0 { // every round
		return 0
	}
	return max(checkpointEvery, 50*took)
}

// checkpoint is a run between two rounds, as a file: a hidden one beside the folders of runs,
// named by what is run. Like these it holds what clients keep to themselves.
type checkpoint struct {
	Version  string // of the program that wrote it: another may compute other bits
	Identity string // of what is run, and on what
	Rounds   int    // that are over; passes of training in one place
	Metrics  []byte // results.Metrics of every round, JSON
	Attempts []experiment.Attempt
	Run      sim.Snapshot // of a federation
	Central  []byte       // of training in one place: algorithm.Passes
}

// checkpointDomain begins the file, ends in the version of its form, and is followed by the
// SHA-256 of the rest, which is a gob.
const checkpointDomain = "fedsim/checkpoint/v1\n"

func decodeCheckpoint(b []byte) (*checkpoint, error) {
	rest, ok := bytes.CutPrefix(b, []byte(checkpointDomain))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("it is no checkpoint of this form, which begins with %q", checkpointDomain)
	}
	sum, rest := rest[:sha256.Size], rest[sha256.Size:]
	if got := sha256.Sum256(rest); !bytes.Equal(got[:], sum) {
		return nil, errors.New("the checkpoint is damaged: its content does not match its digest")
	}
	var c checkpoint
	if err := gob.NewDecoder(bytes.NewReader(rest)).Decode(&c); err != nil {
		return nil, fmt.Errorf("the checkpoint cannot be read: %w", err)
	}
	if here := version.Program(); c.Version != here {
		return nil, fmt.Errorf("the checkpoint is of fedsim %s, and this is %s, which may compute other bits", c.Version, here)
	}
	return &c, nil
}

const checkpointExt = ".checkpoint"

func readCheckpoint(path string) (*checkpoint, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := decodeCheckpoint(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without --resume, or without this file, the run starts anew", path, err)
	}
	return c, nil
}

// write leaves the checkpoint at a path: as a whole, or not at all.
func (c *checkpoint) write(path string) error {
	body := bytes.NewBuffer(append([]byte(checkpointDomain), make([]byte, sha256.Size)...))
	if err := gob.NewEncoder(body).Encode(*c); err != nil {
		return err
	}
	at := body.Bytes()[len(checkpointDomain):]
	sum := sha256.Sum256(at[sha256.Size:])
	copy(at, sum[:])
	return atomicfile.Replace(path, atomicfile.Content(body.Bytes()))
}

// Identity returns a digest of all that determines a run's bits, except fedsim itself: settings, data, own program and session. It does
// not depend on the folder of results, the names of files, or the number of goroutines.
func Identity(e *experiment.Experiment) string {
	c := e.Config
	for _, key := range append(algorithm.Placing(), algorithm.Data.Key, algorithm.FeatureSpec.Key, algorithm.SplitTestFile.Key, algorithm.StartFrom.Key) {
		c.Reset(key)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%s\n%x\n", c.YAML(), e.Data.Digest, e.FilesDigest(), e.Split.Digest, e.Session()) //nolint:errcheck // a hash does not fail
	return hex.EncodeToString(h.Sum(nil))
}

func roundsOf(e *experiment.Experiment) int {
	if c, ok := e.Instance().(algorithm.Central); ok {
		return c.Epochs()
	}
	return e.Schedule.Rounds()
}
