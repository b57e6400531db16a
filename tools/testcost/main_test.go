package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cost runs .ci/cost.
func cost(args ...string) (string, error) {
	out, err := exec.Command("../../.ci/cost", args...).CombinedOutput()
	return string(out), err
}

// Two packages of 20 and 40 s are 60/u times a loop of u s. Recorded as 0.6 times that they pass, and as 0.5 times they fail.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	costs, recorded, loop := filepath.Join(dir, "costs"), filepath.Join(dir, "recorded"), filepath.Join(dir, "loop")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(loop, "#!/bin/bash\nfor ((i = 0; i < 20000; i++)); do :; done\n")
	write(costs, "20.000 /a/sim\n40.000 /a folder/node\n")
	write(recorded, "1e9\n")
	out, err := cost("check", costs, loop, recorded)
	want := regexp.MustCompile(`^tests of 2 packages: 60\.0 s of processor, [1-9][0-9]+ times the loop of [0-9]+\.[0-9]{2} s\n    40\.0 s  /a folder/node\n    20\.0 s  /a/sim\n$`)
	if err != nil || !want.MatchString(out) {
		t.Errorf("%v, %s", err, out)
	}
	write(recorded, "0.1\n")
	if out, err = cost("check", costs, loop, recorded); err == nil || !strings.Contains(out, "times the loop, and 0 are recorded") {
		t.Errorf("a larger sum than recorded: %v, %s", err, out)
	}
	write(costs, "much /a\n")
	if out, err = cost("check", costs, loop, recorded); err == nil || !strings.Contains(out, "costs:1:") {
		t.Errorf("a damaged line: %v, %s", err, out)
	}
}

// A run leaves a line with its folder and seconds, of its children too. A failure stays a failure, and a signal reaches the test.
func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs")
	busy := "x=$(seq 100000 | md5sum); for ((i = 0; i < 60000; i++)); do :; done"
	if out, err := cost("record", file, "bash", "-c", busy); err != nil {
		t.Error(err, out)
	}
	if _, err := cost("record", file, "bash", "-c", "exit 3"); err == nil || err.(*exec.ExitError).ExitCode() != 3 {
		t.Errorf("a failed test: %v", err)
	}
	out, err := cost("record", file, "bash", "-c", "trap 'echo stopped; exit 4' QUIT; kill -QUIT $PPID; for ((i = 0; i < 1000; i++)); do sleep 0.01; done")
	if err == nil || err.(*exec.ExitError).ExitCode() != 4 || out != "stopped\n" {
		t.Errorf("a test that was stopped: %v, %q", err, out)
	}
	b, err := os.ReadFile(file)
	here, _ := os.Getwd()
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if err != nil || len(lines) != 3 || !strings.HasSuffix(lines[0], " "+here) || lines[0] < "0.02" {
		t.Errorf("%q, %v", b, err)
	}
}
