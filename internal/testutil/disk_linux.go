package testutil

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Writer writes files to a folder.
type Writer struct {
	Name string
	// File is the path in the folder of the written file, or of the largest written file. An error
	// must name it.
	File string
	// Write writes the content number n, from 1, in a folder with the contents before it.
	Write func(dir string, n int) error
	// Read returns the number of the newest complete content, 0 if there is none. It returns an
	// error for damaged content.
	Read func(dir string) (int, error)
	// Middle is the room in bytes on a disk that fails in the middle; 0: half of the file.
	Middle uint64
	// Once says that there is no second content: it is never replaced.
	Once bool
	// Inside says that the file is written in place, and only Read can tell whether it is
	// unchanged. A write that fails does not touch any other file.
	Inside bool
}

// inProcess is set in the environment of the process that tries writers.
const inProcess = "FEDSIM_TRY_WRITERS"

// TryWriters tries writers with each fault, in an empty folder and in a folder with content. A write that
// fails must return an error that names the file, and must leave the content unchanged and no other
// file. Once the fault is gone, the same write succeeds. TryWriters works in a process of the calling
// test's own, since the limit would also apply to the files that go test keeps.
func TryWriters(t *testing.T, writers []Writer) {
	t.Helper()
	if os.Getenv(inProcess) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inProcess+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
		return
	}
	for _, w := range writers {
		for _, before := range []int{0, 1} {
			if w.Once && before > 0 {
				continue
			}
			name := w.Name + map[int]string{0: "/nothing before", 1: "/content before"}[before]
			t.Run(name+"/full disk", func(t *testing.T) { w.try(t, before, syscall.RLIMIT_FSIZE, 0) })
			t.Run(name+"/fails in the middle", func(t *testing.T) { w.try(t, before, syscall.RLIMIT_FSIZE, w.middle(t)) })
			t.Run(name+"/no file", func(t *testing.T) { w.try(t, before, syscall.RLIMIT_NOFILE, 0) })
		}
	}
}

// middle returns the size in bytes at which a disk fails in the middle.
func (w *Writer) middle(t *testing.T) uint64 {
	t.Helper()
	if w.Middle > 0 {
		return w.Middle
	}
	dir := t.TempDir()
	if err := w.Write(dir, 1); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, w.File))
	if err != nil {
		t.Fatal(err)
	}
	return uint64(info.Size()) / 2
}

func (w *Writer) try(t *testing.T, before, resource int, limit uint64) {
	dir := t.TempDir()
	if before > 0 {
		if err := w.Write(dir, before); err != nil {
			t.Fatal(err)
		}
	}
	was := files(t, dir)
	var err error
	limited(t, resource, limit, func() { err = w.Write(dir, before+1) })
	switch {
	case err == nil:
		t.Fatal("the write succeeds all the same")
	case !strings.Contains(err.Error(), filepath.Join(dir, w.named())):
		t.Errorf("the error does not name %s: %v", w.File, err)
	}
	w.unchanged(t, dir, was)
	w.has(t, dir, before)
	if err = w.Write(dir, before+1); err != nil {
		t.Fatalf("when the fault is gone: %v", err)
	}
	w.has(t, dir, before+1)
}

// named returns the start of the file's name in an error: the draft's name may end otherwise.
func (w *Writer) named() string {
	first, _, _ := strings.Cut(filepath.ToSlash(w.File), "/")
	name, _, _ := strings.Cut(first, ".")
	return name
}

// unchanged compares the files of a folder with their old content.
func (w *Writer) unchanged(t *testing.T, dir string, was map[string][]byte) {
	t.Helper()
	is := files(t, dir)
	if got, want := slices.Sorted(maps.Keys(is)), slices.Sorted(maps.Keys(was)); !slices.Equal(got, want) {
		t.Errorf("the folder holds %v, and held %v", got, want)
	}
	for name, text := range was {
		if inside := w.Inside && name == w.File; !inside && !bytes.Equal(is[name], text) {
			t.Errorf("%s has other content than it had", name)
		}
	}
}

func (w *Writer) has(t *testing.T, dir string, want int) {
	t.Helper()
	if got, err := w.Read(dir); err != nil || got != want {
		t.Errorf("content %d is there, want %d (%v)", got, want, err)
	}
}

// files returns the files in a folder and below, with their content, and of links where they lead.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out, root := make(map[string][]byte), os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
		case d.Type()&fs.ModeSymlink != 0:
			var to string
			to, err = fs.ReadLink(root, name)
			out[name] = []byte(to)
		default:
			out[name], err = fs.ReadFile(root, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// limited calls a function with a limit of the system. Writes fail at a limit of the size of files, as on a full disk. At a limit of
// the number of open files, no file can be made or opened.
func limited(t *testing.T, resource int, limit uint64, f func()) {
	t.Helper()
	var was syscall.Rlimit
	err := syscall.Getrlimit(resource, &was)
	if err == nil {
		err = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: was.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(resource, &was); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}
