// Package atomicfile writes files that exist as a whole or not at all, also if the process is
// killed or the power fails during the write.
package atomicfile

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/fedsim/fedsim/internal/strictjson"
)

// Write puts data under the path, in place of an old file, and returns once the data survive a
// power failure. The folder must exist. One process may write to one path at a time. Write removes
// a file that a killed process left under PATH.tmp, and does not follow a link at that path. The process's umask applies to the mode.
func Write(path string, data []byte, mode fs.FileMode) error {
	return WriteAll(File{path, mode, Content(data)})
}

// Content is the content of a [File] that is known.
func Content(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// WriteJSON is Write of a value, indented, for all to read.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return Write(path, append(b, '\n'), 0o644)
}

// ErrHeld is the error of [Lock] for a file that another process holds.
var ErrHeld = errors.New("another process holds the file")

// ReadJSON reads what WriteJSON wrote. An error names the file, and wraps fs.ErrNotExist if there is none. A name twice in an object is
// an error: readers differ about which of the values counts.
func ReadJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err = cmp.Or(json.Unmarshal(b, v), strictjson.Once(b)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// FindJSON is ReadJSON of a file that may be missing; false: it is.
func FindJSON(path string, v any) (found bool, err error) {
	err = ReadJSON(path, v)
	return err == nil, only(err)
}

// Draft is the first part of Write, which may fail for lack of room. It writes the data under the
// path's temporary name, and returns the name for Rename. After an error no file is left.
func Draft(path string, data []byte, mode fs.FileMode) (temporary string, err error) {
	f, err := draft(path, mode)
	if err != nil {
		return "", err
	}
	if err = fill(f, Content(data), sync); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Remove removes a file. A missing file is no error.
func Remove(path string) error { return only(os.Remove(path)) }

// only returns an error other than that a file is missing.
func only(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// draft makes the file of a path's temporary name anew.
func draft(path string, mode fs.FileMode) (*os.File, error) {
	temporary := path + ".tmp"
	if err := Remove(temporary); err != nil {
		return nil, err
	}
	return os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// File is a file for [WriteAll]. The process's umask applies to the mode.
type File struct {
	Path  string
	Mode  fs.FileMode
	Write func(io.Writer) error // writes the content
}

// WriteAll writes files in place of old files. The files get their names once all of them are written; after an error
// while they are written, the old files are there.
func WriteAll(files ...File) error {
	var drafts []string
	var err error
	for _, x := range files {
		var f *os.File
		if f, err = draft(x.Path, x.Mode); err != nil {
			break
		}
		drafts = append(drafts, f.Name())
		if err = fill(f, x.Write, sync); err != nil {
			break
		}
	}
	for i, name := range drafts {
		if err == nil {
			err = Rename(name, files[i].Path)
		}
		if err != nil {
			err = errors.Join(err, Remove(name)) // it may be missing: it has its name, if only the sync failed
		}
	}
	return err
}

// Create is Write for a path that must not exist yet. An existing file stays as it is, and the
// error is fs.ErrExist, also if another process made it meanwhile.
func Create(path string, data []byte, mode fs.FileMode) error {
	return creating(path, hidden(path, mode, Content(data), publish))
}

// New has write fill a file that must not exist yet. Only the owner may read the file. The error for an existing
// file wraps fs.ErrExist, and write is then not called.
func New(path string, write func(io.Writer) error) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, error(&fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}))
	}
	return hidden(path, 0o600, write, publish)
}

// Replace has write fill a file in place of an old file. Only the owner may read the file. Several processes may replace one
// path at a time: the last one counts.
func Replace(path string, write func(io.Writer) error) error {
	return hidden(path, 0o600, write, Rename)
}

// hidden fills a hidden file with a name of its own, and moves it to the path.
func hidden(path string, mode fs.FileMode, write func(io.Writer) error, move func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.tmp")
	if err == nil {
		if err = errors.Join(f.Chmod(mode), fill(f, write, sync)); err == nil {
			err = move(f.Name(), path)
		}
		err = errors.Join(err, Remove(f.Name()))
	}
	if _, ofDisk := errors.AsType[*fs.PathError](err); ofDisk {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
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

// fill writes a file and syncs it unless there was an error, and closes it.
func fill(f *os.File, write func(io.Writer) error, sync func(*os.File) error) error {
	w := bufio.NewWriter(f)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = sync(f)
	}
	return errors.Join(err, f.Close())
}

// publish gives a finished file its name in the same folder. The error is fs.ErrExist if the name exists.
func publish(temporary, path string) error {
	if err := creating(path, os.Link(temporary, path)); err != nil { // renaming would replace what is there
		return err
	}
	return Sync(filepath.Dir(path))
}

// Rename gives a file another name in the same folder, in place of an old file, and returns once
// the change survives a power failure.
func Rename(from, to string) error { return cmp.Or(os.Rename(from, to), Sync(filepath.Dir(to))) }

// Link is Rename that leaves the file its first name, too, where the file system has links.
func Link(from, to string) error {
	if cmp.Or(Remove(to), os.Link(from, to)) != nil {
		return Rename(from, to)
	}
	return Sync(filepath.Dir(to))
}

// Part writes a new file of a folder that [Folder] is to name, which syncs it.
func Part(x File) error {
	f, err := os.OpenFile(x.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, x.Mode)
	if err == nil {
		err = fill(f, x.Write, func(*os.File) error { return nil })
	}
	return err
}

// Folder gives a finished folder its name, once everything in it would survive a power failure. The error is the system's if
// there is a file, or a folder that is not empty, under the name.
func Folder(temporary, path string) error {
	err := filepath.WalkDir(temporary, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return Sync(name)
	})
	if err != nil {
		return err
	}
	return Rename(temporary, path)
}

// Sync makes a file durable, or the list of files in a folder. Windows syncs neither through a file that is open
// for reading; its file system keeps the order of changes itself.
func Sync(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(sync(f), f.Close())
}

// sync is replaced by tests.
var sync = (*os.File).Sync

// Room returns an error that is syscall.ENOSPC if the disk of a folder has no room for so many bytes. It is asked before work
// whose result would be lost. The folder may be missing; its parents count then. A system that does not know has room.
func Room(dir string, bytes uint64) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for _, err = os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
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
func RoomForModel(dir string, model int) error { return Room(dir, 1<<20+6*uint64(model)) }
