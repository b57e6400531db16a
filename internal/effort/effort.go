// Package effort says how much the tests of this run do: little with -short, the usual without, and
// everything with FEDSIM_TEST_LONG=1 as in .ci/long. FEDSIM_TEST_LONG=load adds tests that load a
// machine for many minutes. Only tests import it.
package effort

import (
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

// Garbage is GOGC of tests that are not long, and of the commands that they start, unless the environment has one. A test
// holds little and lives for seconds: with Go's default, collecting takes up to a fifth of its processor time.
const Garbage = 400

// memory holds the files of tests that are not long, and of the commands that they start, unless the environment names another folder:
// to sync a disk takes longer than most tests. The system must have it, with room, and let programs start there.
const memory = "/dev/shm"

var mounted = regexp.MustCompile(`(?m)^\S+ ` + memory + ` tmpfs rw(,(nosuid|nodev|noatime|[^n,][^, ]*))* `) // not noexec

// Benchmarks keep the defaults that programs have.
func init() {
	if Long() || slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.bench=") }) {
		return
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(Garbage)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	if free, _ := atomicfile.Free(memory); free > 4<<30 && mounted.Match(mounts) && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", memory) //nolint:errcheck // else it is the disk
	}
}

// Variable is the environment variable that asks for long tests.
const Variable = "FEDSIM_TEST_LONG"

// Long reports whether long tests run.
func Long() bool { return os.Getenv(Variable) != "" }

// LongOnly skips a test unless long tests run. why gives its cost, or names a shorter substitute.
func LongOnly(t testing.TB, why string) {
	t.Helper()
	if !Long() {
		t.Skipf("%s: %s=1 runs it", why, Variable)
	}
}

// Load reports whether tests may load the machine for many minutes.
func Load() bool { return os.Getenv(Variable) == "load" }

// NotShort skips a test under -short.
func NotShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why)
	}
}

// Of returns the number of runs, cases or bytes for the requested effort.
func Of[T any](short, usual, long T) T {
	switch {
	case Long():
		return long
	case testing.Short():
		return short
	}
	return usual
}
