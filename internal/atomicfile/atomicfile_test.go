package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

// content fails the test unless the folder holds exactly one file, with that
// content and mode.
func content(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("the folder holds %v; want one file", entries)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != mode {
		t.Errorf("the mode is %v, want %v", info.Mode(), mode)
	}
}

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	// Left behind by a killed process: longer, and with another mode.
	if err := os.WriteFile(path+".tmp", []byte("torn and much longer"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "2nd"} {
		if err := atomicfile.Write(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		content(t, path, text, 0o640)
	}
}

func TestCreateNeverReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Create(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Create(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating it again: %v, want fs.ErrExist", err)
	}
	content(t, path, "first", 0o600)
}

// An error names the file that was asked for, and no temporary name.
func TestCreateNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	there, nowhere := filepath.Join(dir, "there"), filepath.Join(dir, "no folder", "file")
	if err := atomicfile.Create(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, is := range map[string]error{there: fs.ErrExist, nowhere: fs.ErrNotExist} {
		var named *fs.PathError
		if err := atomicfile.Create(path, nil, 0o600); !errors.As(err, &named) || !errors.Is(err, is) || named.Path != path || strings.Contains(err.Error(), ".tmp") {
			t.Errorf("creating %s: %v", path, err)
		}
	}
}

// A failed write leaves no file of its own and all old files.
func TestFailureLeavesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Rename(filepath.Join(dir, "none"), filepath.Join(dir, "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("renaming nothing: %v", err)
	}
	if err := atomicfile.Create(filepath.Join(dir, "taken"), []byte("text"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating over a folder: %v", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "missing", "file"), []byte("text"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writing in a folder that does not exist: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "taken" {
		t.Errorf("the folder holds %v; want only the folder that was there", entries)
	}
}

// Readers of JSON differ about a name that is there twice: Go and Python take the last value, others the first.
func TestReadJSONRefusesANameTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.json")
	if err := os.WriteFile(path, []byte(`{"privacy":{"epsilon":9,"delta":1,"epsilon":1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var all any
	if err := atomicfile.ReadJSON(path, &all); err == nil || !strings.Contains(err.Error(), `summary.json: the name "epsilon" is there twice`) {
		t.Errorf("%v, %v", all, err)
	}
}
