package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two packages of 20 and 40 s are 30 times a loop of 2 s. Recorded as 20 that is 1.5 times and passes; as 19.9 it fails.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	costs, recorded := filepath.Join(dir, "costs"), filepath.Join(dir, "recorded")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(costs, "20.000 /a/sim\n40.000 /a folder/node\n")
	loop := func() (float64, error) { return 2, nil }
	var out bytes.Buffer
	write(recorded, "20\n")
	if err := compare(&out, costs, recorded, loop); err != nil {
		t.Error(err)
	}
	want := "tests of 2 packages: 60.0 s of processor, 30 times the loop of 2.00 s\n    40.0 s  /a folder/node\n    20.0 s  /a/sim\n"
	if out.String() != want {
		t.Errorf("printed\n%s, want\n%s", out.String(), want)
	}
	write(recorded, "19.9\n")
	if err := compare(&out, costs, recorded, loop); err == nil || !strings.Contains(err.Error(), "30 times the loop, and recorded records 20") {
		t.Errorf("1.508 times the recorded sum: %v", err)
	}
	write(costs, "much /a\n")
	if err := compare(&out, costs, recorded, loop); err == nil || !strings.Contains(err.Error(), "costs:1:") {
		t.Errorf("a damaged line: %v", err)
	}
}

// A run leaves a line with its folder, and its failure stays a failure.
func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs")
	if err := record(file, []string{"go", "version"}); err != nil {
		t.Error(err)
	}
	if err := record(file, []string{"go", "no-such-command"}); err == nil {
		t.Error("a failed test passed")
	}
	list, err := read(file)
	here, _ := os.Getwd()
	if err != nil || len(list) != 2 || list[0].dir != here {
		t.Errorf("%+v, %v", list, err)
	}
}
