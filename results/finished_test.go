package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
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
	settings, err := config.ReadFile(path)
	if err != nil || CheckKeys(path, settings) != nil {
		t.Fatal(err, CheckKeys(path, settings))
	}
	write("manifest.json", `{"version": "v0.0.9", "revision": "abc"}`)
	for _, want := range []string{`unknown key "random-walk"`, "v0.0.9 (revision abc) made the run", "fedsim export --run " + dir} {
		if _, _, err = ReadConfig(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	write("config.yaml", "epsilon: 3\n")
	if _, m, err := ReadConfig(dir); err != nil || m.Version != "v0.0.9" {
		t.Errorf("%+v, %v", m, err)
	}
}
