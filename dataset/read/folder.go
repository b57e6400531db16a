package read

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
)

// folder is where the files of a set stand: a folder of the disk or of a zip archive.
type folder interface {
	// open opens a file of the folder and returns its size in bytes, 0 where it is unknown. The error
	// of a missing file wraps fs.ErrNotExist.
	open(name string) (r io.ReadCloser, size int64, err error)
	has(name string) bool
	names() []string         // of its files, ascending
	path(name string) string // for messages
}

// baseName names a path by its last element, and "." by the folder it stands for.
func baseName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Base(path)
}

// diskFolder is a folder of the disk; "" is the present one.
type diskFolder string

func (d diskFolder) path(name string) string { return filepath.Join(string(d), name) }

func (d diskFolder) has(name string) bool {
	info, err := os.Stat(d.path(name))
	return err == nil && !info.IsDir()
}

func (d diskFolder) names() []string {
	entries, err := os.ReadDir(cmp.Or(string(d), "."))
	if err != nil {
		return nil // opening a file of it says why
	}
	var list []string
	for _, e := range entries {
		if d.has(e.Name()) {
			list = append(list, e.Name())
		}
	}
	return list
}

func (d diskFolder) open(name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, 0, err
	}
	var size int64
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

// standardInput is the spec of what is piped in.
const standardInput = "-"

// pipe is a folder that holds the piped text alone.
type pipe struct{ io.Reader }

func (p pipe) path(string) string { return "standard input" }

func (p pipe) has(string) bool { return false }

func (p pipe) names() []string { return nil }

func (p pipe) open(string) (io.ReadCloser, int64, error) {
	return io.NopCloser(readerOnly(p)), 0, nil
}

// readerOnly hides that standard input may be a file, which would be read from its start.
type readerOnly struct{ io.Reader }
