//go:build unix

package read_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/dataset/files"
	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
)

// A folder that the process may not list does not look empty. Neither does a folder with a file that it may not look at. As root a test cannot be
// kept out of a folder.
func TestFolderWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read every folder")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ratings.csv"), []byte("user,item,rating\n1,1,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0, 0o100, 0o400} {
		if err := os.Chmod(dir, mode); err != nil { //nolint:gosec // the test is about modes
			t.Fatal(err)
		}
		if _, err := files.Open(t.Context(), dir, files.Options{}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a folder of mode %#o: %v", mode, err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := files.Open(t.Context(), dir, files.Options{}); err != nil || s.File != "ratings.csv" {
		t.Errorf("a folder that may be read: %v, %v", s, err)
	}
}

// The search for ratings in a folder does not open a named pipe: that would wait for its writer for ever.
func TestFolderWithPipe(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.csv"), []byte("user,item,rating\n1,1,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "log"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		s, err := files.Open(t.Context(), dir, files.Options{Holds: func(context.Context, files.Input) bool { return true }})
		if err != nil {
			found <- err.Error()
			return
		}
		found <- s.File
	}()
	select {
	case file := <-found:
		if file != "shop.csv" {
			t.Errorf("found %s; want shop.csv", file)
		}
	case <-time.After(10 * time.Second):
		t.Error("the search waits for a pipe")
	}
}
