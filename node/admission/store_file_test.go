//go:build unix

package admission_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/node/store"
)

// A planted link's target is not changed.
func TestPlantedLinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "public.json")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(victim, path+".tmp")); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := string(readFile(t, victim)); got != "precious" {
		t.Errorf("the file that the link pointed to is now %q", got)
	}
	if got := string(readFile(t, path)); got != "new" {
		t.Errorf("the file is %q", got)
	}
	if _, err := os.Lstat(path + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link is left behind: %v", err)
	}
}

// A folder that others can write to is refused, with what puts it right.
func TestSharedFolderIsRefused(t *testing.T) {
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o770: false, 0o707: false, 0o777 | os.ModeSticky: false} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		err := store.MakeFolder(dir)
		if ok && err != nil || !ok && (!errors.Is(err, store.ErrShared) || !strings.Contains(err.Error(), "chmod go-w "+dir)) {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if err := store.MakeFolder(filepath.Join(t.TempDir(), "a", "b")); err != nil {
		t.Errorf("a new one: %v", err)
	}
}
