package training_test

import (
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/internal/training"
)

// TestCheckpointOnABadDisk checks a checkpoint for which there is no room, or no file. It leaves the checkpoint
// before as it is, and nothing beside it. A run can still continue from the checkpoint before.
func TestCheckpointOnABadDisk(t *testing.T) {
	const name = ".x.checkpoint"
	testutil.TryWriters(t, []testutil.Writer{{
		Name: "checkpoint", File: name,
		Write: func(dir string, n int) error { return training.WriteCheckpoint(filepath.Join(dir, name), n) },
		Read:  func(dir string) (int, error) { return training.ReadCheckpoint(filepath.Join(dir, name)) },
	}})
}
