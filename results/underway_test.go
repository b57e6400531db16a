//go:build linux

package results

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A name reserved by a living run is refused at the start; the folder of a run whose process is
// gone is removed.
func TestNameOfARunUnderWay(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	first, second := &Folder{out: out, name: "twin", named: true}, &Folder{out: out, name: "twin", named: true}
	if err := first.reserve(filepath.Join(out, ".twin-"+strings.Repeat("A", 26))); err != nil {
		t.Fatal(err)
	}
	if err := second.reserve(filepath.Join(out, ".twin-"+strings.Repeat("B", 26))); err == nil || !strings.Contains(err.Error(), "twin is under way") {
		t.Errorf("%v", err)
	}
	if err := first.lock.Close(); err != nil { // as when its process is killed
		t.Fatal(err)
	}
	if err := second.reserve(filepath.Join(out, ".twin-"+strings.Repeat("B", 26))); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(out)
	if err != nil || len(files) != 1 || files[0].Name() != ".twin-"+strings.Repeat("B", 26) {
		t.Errorf("%v, %v", files, err)
	}
}

// A second process waits until the first has let go, and its context ends the wait.
func TestAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sweep")
	release, err := Alone(t.Context(), dir, func() { t.Error("the first waits") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err = Alone(ctx, dir, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
	waited := false
	second, err := Alone(t.Context(), dir, func() { waited = true; release() })
	if err != nil || !waited {
		t.Fatalf("the second waited: %v, %v", waited, err)
	}
	second()
}
