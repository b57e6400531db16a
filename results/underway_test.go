//go:build linux

package results

import (
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
