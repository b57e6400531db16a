package files

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is where the files of a set stand: a folder of the disk or of a zip archive.
type Folder interface {
	// Open opens a file of the folder and returns its size in bytes, 0 where it is unknown. The error
	// of a missing file wraps fs.ErrNotExist.
	Open(name string) (r io.ReadCloser, size int64, err error)
	Has(name string) bool
	names() []string         // of its files, ascending
	Path(name string) string // for messages
}

// BaseName names a path by its last element, and "." by the folder it stands for.
func BaseName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Base(path)
}

// DiskFolder is a folder of the disk; "" is the present one.
type DiskFolder string

func (d DiskFolder) Path(name string) string { return filepath.Join(string(d), name) }

func (d DiskFolder) Has(name string) bool {
	info, err := os.Stat(d.Path(name))
	return err == nil && !info.IsDir()
}

// Readable returns an error if the process may not list the folder or look at the files in it. Without it such a folder looks empty.
func (d DiskFolder) Readable() error {
	entries, err := os.ReadDir(cmp.Or(string(d), "."))
	for _, e := range entries {
		if _, denied := os.Stat(d.Path(e.Name())); errors.Is(denied, fs.ErrPermission) {
			return denied
		}
	}
	return err
}

func (d DiskFolder) names() []string {
	entries, err := os.ReadDir(cmp.Or(string(d), "."))
	if err != nil {
		return nil // Readable says why
	}
	var list []string
	for _, e := range entries {
		if d.Has(e.Name()) {
			list = append(list, e.Name())
		}
	}
	return list
}

func (d DiskFolder) Open(name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(d.Path(name))
	if err != nil {
		return nil, 0, err
	}
	var size int64
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

// Standard is the spec of what is piped in.
const Standard = "-"

// pipe is a folder that holds the piped text alone.
type pipe struct{ io.Reader }

func (p pipe) Path(string) string { return "standard input" }

func (p pipe) Has(string) bool { return false }

func (p pipe) names() []string { return nil }

func (p pipe) Open(string) (io.ReadCloser, int64, error) {
	return io.NopCloser(readerOnly(p)), 0, nil
}

// readerOnly hides that standard input may be a file, which would be read from its start.
type readerOnly struct{ io.Reader }
