//go:build unix

package admission_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
)

// systemd gives credentials mode 0440 and root as their owner. A file of mode 0440 with another
// owner is shared with a group. Modes and owner are taken from systemd issue 29096.
func TestKeyHandedOverByRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.json")
	if err := admission.WriteKey(path, key(t, "handed over")); err != nil {
		t.Fatal(err)
	}
	check := func(what string, exposed bool) {
		t.Helper()
		_, err := admission.ReadKey(path)
		if errors.Is(err, admission.ErrExposed) != exposed || err != nil != exposed {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Chmod(path, 0o440); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		check("0440, of a user", true)
		t.Skip("files of root's take root")
	}
	if err := os.Chown(path, 0, 0); err != nil {
		t.Fatal(err)
	}
	check("0440, root's", false)
	for _, owner := range [][2]int{{0, 1000}, {1000, 0}} {
		if err := os.Chown(path, owner[0], owner[1]); err != nil {
			t.Fatal(err)
		}
		check("0440, of somebody else", true)
	}
	if err := errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0o444)); err != nil {
		t.Fatal(err)
	}
	check("0444", true)
}
