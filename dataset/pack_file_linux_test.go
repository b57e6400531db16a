package dataset_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/testutil"
)

// TestPackDisks: a packed file is there as a whole or not at all.
func TestPackDisks(t *testing.T) {
	const name = "set.pack"
	testutil.TryWriters(t, []testutil.Writer{{
		Name: "data pack", File: name, Once: true,
		Write: func(dir string, _ int) error {
			_, err := read.PackFile(t.Context(), "synthetic:small", read.Options{}, filepath.Join(dir, name))
			return err
		},
		Read: func(dir string) (int, error) {
			_, err := read.Open(t.Context(), filepath.Join(dir, name), read.Options{})
			if errors.Is(err, fs.ErrNotExist) {
				return 0, nil
			}
			return 1, err
		},
	}})
}

// TestPackFileTwice: a file that is there stays as it is.
func TestPackFileTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set.pack")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read.PackFile(t.Context(), "synthetic:small", read.Options{}, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want one that it is there", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q now, error %v", b, err)
	}
}
