package results

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
)

// A run with keys that this program does not have names its version and what still works. A file elsewhere, without a manifest
// beside it, is an experiment file, and its keys are checked as ever.
func TestRunWithKeysOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config.yaml", "epsilon: 3\nrandom-walk: 4\n")
	path := filepath.Join(dir, "config.yaml")
	if _, err := ReadSettings(path); err != nil {
		t.Fatal(err)
	}
	write("manifest.json", `{"version": "v0.0.9", "revision": "abc"}`)
	for _, want := range []string{`unknown key "random-walk"`, "v0.0.9 (revision abc) made the run", "fedsim export --run " + dir} {
		if _, _, err := ReadConfig(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	moved := filepath.Join(dir, "..", "ratings", filepath.Base(dir)+".csv") // beside the run, as Python keeps data
	if err := errors.Join(os.MkdirAll(filepath.Dir(moved), 0o700), os.WriteFile(moved, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	write("config.yaml", "data: /gone/"+filepath.Base(moved)+"\n")
	if list, err := ReadSettings(path); err != nil || len(list) != 1 || list[0].Value != moved {
		t.Errorf("%v, %v; want the data in %s, where they moved with the run", list, err, moved)
	}
	if c, _, err := ReadConfig(dir); err != nil || algorithm.Data.Of(c) != moved {
		t.Errorf("%v; want the data in %s", err, moved)
	}
	write("config.yaml", "epsilon: 3\n")
	if _, m, err := ReadConfig(dir); err != nil || m.Version != "v0.0.9" {
		t.Errorf("%+v, %v", m, err)
	}
}
