// Package atomicfile writes files that are there as a whole or not at all, also
// when the process is killed or the power fails while it writes.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts data under the path, in place of what is there, and returns once
// that survives a power failure. The folder must exist. One process writes to
// one path at a time; what a killed one left under PATH.tmp is taken away first, and
// what somebody has put there since is not followed.
func Write(path string, data []byte, mode fs.FileMode) error {
	temporary, err := Draft(path, data, mode)
	if err != nil {
		return err
	}
	if err = Rename(temporary, path); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// Draft is the first part of Write, which may fail for want of room: it puts the data
// under the path's temporary name, which it returns, for Rename. After an error nothing is
// there.
func Draft(path string, data []byte, mode fs.FileMode) (temporary string, err error) {
	temporary = path + ".tmp"
	if err = os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	if err = finish(f, data, mode); err != nil {
		return "", errors.Join(err, os.Remove(temporary))
	}
	return temporary, nil
}

// Create is Write for a path under which there must be nothing yet: a file that
// is there stays as it is, and the error is fs.ErrExist, whoever was first.
func Create(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	if err := finish(f, data, mode); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return Publish(f.Name(), path)
}

func finish(f *os.File, data []byte, mode fs.FileMode) error {
	err := f.Chmod(mode)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Publish gives a finished file its name in the same folder, under which there
// must be nothing yet (fs.ErrExist), and takes its temporary name away in any case.
func Publish(temporary, path string) error {
	// A link, since renaming would replace what is there.
	err := errors.Join(os.Link(temporary, path), os.Remove(temporary))
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Rename gives a file another name in the same folder, in place of what bears it,
// and returns once that survives a power failure.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// syncDir makes durable which files there are in a folder.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
