package pack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File has write fill a file, which must not be there yet (else the error wraps [fs.ErrExist]). The file appears when it is whole:
// before, and if anything fails, nothing is there but a hidden draft, which is removed.
func File(path string, write func(io.Writer) (Report, error)) (p Report, err error) {
	if _, err = os.Lstat(path); err == nil {
		return p, fmt.Errorf("%s: %w", path, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(draft.Name()))
		}
	}()
	p, err = write(draft)
	if err == nil {
		err = draft.Sync()
	}
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if _, ofDisk := errors.AsType[*fs.PathError](err); ofDisk {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return p, err
}
