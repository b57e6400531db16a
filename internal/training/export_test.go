package training

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/sim"
)

// CheckpointEvery sets how much time passes between checkpoints.
func CheckpointEvery(d time.Duration) { checkpointEvery = d }

// Pause returns the pause after a checkpoint that took this long.
func Pause(took time.Duration) time.Duration { return pause(took) }

// WriteCheckpoint writes one of a run of so many rounds.
func WriteCheckpoint(path string, rounds int) error {
	c := checkpoint{Version: version.Program(), Identity: "made up", Rounds: rounds, Run: sim.Snapshot{Strategy: make([]byte, 1<<16)}}
	return c.write(path)
}

// ReadCheckpoint is of how many rounds the checkpoint there is; 0 without one.
func ReadCheckpoint(path string) (int, error) {
	c, err := readCheckpoint(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return c.Rounds, nil
}

// Stopped returns the error of a run of ten rounds that was stopped when a number of them was written down.
// failed is the error of the latest attempt to write, or nil.
func Stopped(written int, failed error) error {
	k := &checkpointer{path: "runs/.x.checkpoint", rounds: 10, written: written, failed: failed}
	return k.stopped(context.Canceled)
}
