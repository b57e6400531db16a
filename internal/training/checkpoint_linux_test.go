package training_test

import (
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/internal/disktest"
	"github.com/fedsim/fedsim/internal/training"
)

// A checkpoint for which there is no room, or no right, leaves the one before as it is, which can
// still be gone on with, and nothing beside it.
func TestCheckpointOnABadDisk(t *testing.T) {
	const name = ".x.checkpoint"
	disktest.Run(t, []disktest.Writer{{
		Name: "checkpoint", File: name,
		Write: func(dir string, n int) error { return training.WriteCheckpoint(filepath.Join(dir, name), n) },
		Read:  func(dir string) (int, error) { return training.ReadCheckpoint(filepath.Join(dir, name)) },
	}})
}
