//go:build unix

package external

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// beside sets the variable BESIDE to a pipe that the processes of programs hold. The returned function waits for them to end.
func beside(t *testing.T) (gone func()) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "beside")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() }) //nolint:errcheck // nothing was written
	t.Setenv("BESIDE", name)
	return func() {
		if err := f.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(f); err != nil {
			t.Errorf("a process of a program is left: %v", err)
		}
	}
}

// Beside is beside for the tests outside the package.
var Beside = beside
