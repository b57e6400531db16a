package party

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

// SetCurrent has the link current of a state lead to the model of a session, in one step and durably.
func SetCurrent(dir, session string) error {
	return linkTo(dir, CurrentLink, filepath.Join(PastFolder, session, ModelFolder))
}

// linkTo has a link of a state lead to a folder in the state, in one step and durably.
func linkTo(dir, name, to string) error {
	link := filepath.Join(dir, name)
	draft := link + ".tmp"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a process that was killed
		return err
	}
	if err := os.Symlink(to, draft); err != nil {
		return err
	}
	if err := os.Rename(draft, link); err != nil {
		return err
	}
	return atomicfile.Sync(dir)
}

// SyncFolder has what is in a folder, which holds files only, survive a power failure.
func SyncFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err = atomicfile.Sync(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return errors.Join(atomicfile.Sync(dir), atomicfile.Sync(filepath.Dir(dir)))
}
