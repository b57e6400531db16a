package cli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
)

// profiled is a command line with flags for profiles.
type profiled struct {
	Do doCmd `cmd:"" help:"Do it."`
	cli.ProfileFlags
}

// Profiles are complete when the command ends, also when it fails. The first bytes of each kind of
// file are from the formats: gzip's magic number, and the header of a trace.
func TestProfiles(t *testing.T) {
	run := func(err error, args ...string) (int, string) {
		var errs bytes.Buffer
		p := cli.Program{Name: "tool", Version: func() string { return "v1" }, Bind: func() (any, error) { return &world{new(bytes.Buffer), err}, nil }}
		return p.Run(t.Context(), new(profiled), args, new(bytes.Buffer), &errs), errs.String()
	}
	for _, err := range []error{nil, errors.New("it went wrong")} {
		dir := t.TempDir()
		code, stderr := run(err, "do", "--cpuprofile", filepath.Join(dir, "cpu"), "--memprofile", filepath.Join(dir, "mem"), "--trace", filepath.Join(dir, "trace"))
		if failed := err != nil; failed != (code == cli.Failed) || failed != strings.Contains(stderr, "it went wrong") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		for name, begin := range map[string]string{"cpu": "\x1f\x8b", "mem": "\x1f\x8b", "trace": "go 1."} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(got), begin) {
				t.Errorf("%s begins with %.5q, %v; want %q", name, got, err, begin)
			}
		}
	}
	if code, stderr := run(nil, "do", "--cpuprofile", filepath.Join(t.TempDir(), "nowhere", "cpu")); code != cli.Failed || !strings.Contains(stderr, "profile: open ") {
		t.Errorf("a profile that cannot be written: exit code %d, %s", code, stderr)
	}
}
