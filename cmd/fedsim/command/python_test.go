package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
)

// withPandas returns a Python with pandas: from the path, or else from the system.
func withPandas(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import numpy, pandas").Run() == nil {
			return python
		}
	}
	t.Skip("there is no Python with pandas; Debian has it in python3-pandas")
	return ""
}

// The tests of the Python package pass with the command.
func TestPythonPackage(t *testing.T) {
	effort.LongOnly(t, "seconds")
	python := withPandas(t)
	if exec.Command(python, "-c", "import pytest").Run() != nil {
		t.Skip("there is no pytest; Debian has it in python3-pytest")
	}
	root, err := filepath.Abs("../../../python")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "fedsim") // which has the algorithm external, as this test does not
	if out, failed := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/fedsim/fedsim/cmd/fedsim").CombinedOutput(); failed != nil {
		t.Fatalf("%v\n%s", failed, out)
	}
	cmd := exec.CommandContext(t.Context(), python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", root, filepath.Join(root, "tests"))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PYTHONUTF8=1", "PYTHONDONTWRITEBYTECODE=1", "FEDSIM="+program, "PYTHONPATH="+filepath.Join(root, "src"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// docs/python.md does what it says: its blocks run one after another in one interpreter, and
// print what is below them.
func TestPythonPage(t *testing.T) {
	effort.LongOnly(t, "seconds")
	python := withPandas(t)
	page := string(readFile(t, "../../../docs/python.md"))
	var program, want []string
	for _, m := range regexp.MustCompile("(?ms)^```(python|text)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		if m[1] == "python" {
			program = append(program, m[2])
		} else {
			want = append(want, m[2])
		}
	}
	if len(program) < 4 || len(want) != len(program) {
		t.Fatalf("%d blocks of Python and %d of what they print", len(program), len(want))
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "page.py")
	const between = "\x00"
	if err := os.WriteFile(file, []byte(strings.Join(program, "print(chr(0), end='')\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, file) // fedsim is this test's own binary, by testscript.Main
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	source, err := filepath.Abs("../../../python/src")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "PYTHONUTF8=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", "FEDSIM=", "PYTHONPATH="+source)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &errs)
	}
	for i, got := range strings.Split(string(out), between) {
		if got != want[i] {
			t.Errorf("block %d printed\n%swant\n%s", i+1, got, want[i])
		}
	}
}
