package results

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

// WriteFile writes a file that every user of the machine may read, in place of an existing file: as
// a whole or not at all.
func WriteFile(path string, data []byte) error { return atomicfile.Write(path, data, 0o644) }

// drafts are files under temporary names, to be put in their places together.
type drafts []string

const drafted = ".tmp" // suffix of the name of an unfinished file

// add writes a file under its temporary name. It removes a draft that a killed process left.
func (d *drafts) add(path string, mode fs.FileMode, write func(io.Writer) error) error {
	temporary := path + drafted
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	*d = append(*d, path)
	return fill(f, write)
}

// fill writes a file, syncs it and closes it.
func fill(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// finish puts the files in their places, or removes them if there was an error.
func (d *drafts) finish(err error) error {
	for _, path := range *d {
		if err == nil {
			err = os.Rename(path+drafted, path)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(path+drafted))
		}
	}
	return err
}

// WriteNew writes a file that must not exist yet, as a whole or not at all. Only the owner may read it. The
// error for an existing file wraps fs.ErrExist, and write is then not called.
func WriteNew(path string, write func(io.Writer) error) (err error) {
	if exists(path) {
		return &os.PathError{Op: "create", Path: path, Err: os.ErrExist}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*"+drafted)
	if err != nil {
		return err
	}
	if err = fill(f, write); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err = atomicfile.Publish(f.Name(), path); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
