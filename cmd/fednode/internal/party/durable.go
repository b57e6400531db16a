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
	return atomicfile.Rename(draft, link)
}
