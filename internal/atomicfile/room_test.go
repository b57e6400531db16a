package atomicfile

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// No disk has 2^62 bytes. A folder that is not there yet is on the disk of its parents.
func TestRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "x")
	if _, known := Free(filepath.Dir(filepath.Dir(dir))); !known {
		t.Skip("this system does not say how much is left")
	}
	for _, bytes := range []uint64{1 << 62, math.MaxInt64} {
		if err := Room(dir, bytes); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "are left on the disk of") {
			t.Errorf("room for %d bytes: %v", bytes, err)
		}
	}
	if err := Room(dir, 1); err != nil {
		t.Errorf("room for a byte: %v", err)
	}
	if err := RoomForModel(dir, math.MaxInt64/8); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("room for a model: %v", err)
	}
}
