package fedsim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
)

// A program of another module builds and runs offline with the public packages alone. A main of at most 20 lines gives
// recommendations from its own ratings. An algorithm of at most 40 lines runs in two variants side by side. The programs are in
// testdata/outside.
func TestProgramsOfAnotherModule(t *testing.T) {
	effort.LongOnly(t, "linking two programs of another module takes seconds")
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err = os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "outside"))); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	mod := "module example.org/outside\n\ngo 1.26\n\nrequire github.com/fedsim/fedsim v0.0.0\n\nreplace github.com/fedsim/fedsim => " + root + "\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": string(sums)} {
		if err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ program, file, output string }{
		{"recommend", "main.go", `^\[item \d+ item \d+ item \d+\] <nil>\n$`},
		{"own", "levels.go", `^levels \d\.\d+\nlevels \d\.\d+\n$`},
	} {
		t.Run(c.program, func(t *testing.T) {
			most := map[string]int{"recommend": 20, "own": 40}[c.program]
			text, err := os.ReadFile(filepath.Join(dir, c.program, c.file))
			if n := strings.Count(string(text), "\n"); err != nil || n > most {
				t.Errorf("%s has %d lines, above %d; %v", c.file, n, most, err)
			}
			run := exec.CommandContext(t.Context(), "go", "run", "./"+c.program)
			run.Dir = dir
			run.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false -trimpath", "GOPROXY=off", "GOWORK=off")
			out, err := run.CombinedOutput()
			if err != nil || !regexp.MustCompile(c.output).Match(out) {
				t.Errorf("%v\n%s\nwant %s", err, out, c.output)
			}
		})
	}
}
