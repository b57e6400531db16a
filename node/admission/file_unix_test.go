//go:build unix

package admission_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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

// A container runs as user 1000 with the groups 1000 and 2000, its fsGroup. Kubernetes hands it secrets as root's files of that
// group, with mode 0440 (API reference of SecretVolumeSource and PodSecurityContext.fsGroup). PostgreSQL takes 0640, too
// (manual, section 18.9.1).
func TestSecretsOfContainers(t *testing.T) {
	for _, c := range []struct {
		mode     fs.FileMode
		uid, gid uint32
		process  int
		given    bool
	}{
		{0o440, 0, 2000, 1000, true},
		{0o640, 0, 2000, 1000, true},
		{0o400, 0, 1000, 1000, true},
		{0o440, 0, 3000, 1000, false},    // a group of others
		{0o440, 1000, 2000, 1000, false}, // its own file, which its own chmod mends
		{0o440, 1001, 2000, 1000, false},
		{0o460, 0, 2000, 1000, false}, // the group can write to it
		{0o660, 0, 2000, 1000, false},
		{0o444, 0, 2000, 1000, false},
		{0o440, 0, 2000, 0, false}, // root hands itself nothing over
		{0o440, 0, 0, 1000, true},  // systemd
		{0o640, 0, 0, 1000, false},
	} {
		if got := admission.GivenByRoot(c.mode, c.uid, c.gid, c.process, []int{1000, 2000}); got != c.given {
			t.Errorf("%#o of user %d and group %d, for a process of %d: %v", c.mode, c.uid, c.gid, c.process, got)
		}
	}
}

func TestKeyIsNoPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admission.ReadKey(pipe); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("a pipe that nobody writes to: %v", err)
	}
}
