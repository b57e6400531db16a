package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Room returns an error that is syscall.ENOSPC if the disk of a folder has no room for so many bytes. It is asked before work
// whose result would be lost. The folder may be missing; its parents count then. A system that does not know has room.
func Room(dir string, bytes uint64) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for {
		if _, err = os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if free, known := Free(dir); known && free < bytes {
		return fmt.Errorf("%w: %.1f MB are left on the disk of %s, and about %.1f MB are needed for what is kept; make room, or name a folder on another disk",
			syscall.ENOSPC, float64(free)/1e6, dir, float64(bytes)/1e6)
	}
	return nil
}

// RoomForModel is Room for a model of so many bytes: the model, two checkpoints and the embeddings of the model in files of
// their own.
func RoomForModel(dir string, model int) error { return Room(dir, leastRoom+6*uint64(model)) }

const leastRoom = 1 << 20
