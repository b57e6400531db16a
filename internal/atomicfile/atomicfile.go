// Package atomicfile writes files that exist as a whole or not at all, also if the process is
// killed or the power fails during the write.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts data under the path, in place of an old file, and returns once the data survive a
// power failure. The folder must exist. One process may write to one path at a time. Write removes
// a file that a killed process left under PATH.tmp, and does not follow a link at that path.
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

// Draft is the first part of Write, which may fail for lack of room. It writes the data under the
// path's temporary name, and returns the name for Rename. After an error no file is left.
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

// Create is Write for a path that must not exist yet. An existing file stays as it is, and the
// error is fs.ErrExist, also if another process made it meanwhile.
func Create(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return creating(path, err)
	}
	if err := finish(f, data, mode); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return Publish(f.Name(), path)
}

// creating returns the cause of an error of a temporary name as an error of the path.
func creating(path string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	} else if l, ok := errors.AsType[*os.LinkError](err); ok {
		err = l.Err
	}
	return &fs.PathError{Op: "create", Path: path, Err: err}
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

// Publish gives a finished file its name in the same folder, and removes its temporary name in any
// case. The error is fs.ErrExist if the name exists.
func Publish(temporary, path string) error {
	// A link, since renaming would replace what is there.
	err := errors.Join(creating(path, os.Link(temporary, path)), os.Remove(temporary))
	if err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Rename gives a file another name in the same folder, in place of an old file, and returns once
// the change survives a power failure.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return Sync(filepath.Dir(to))
}

// Sync makes a file durable, or the list of files in a folder.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
