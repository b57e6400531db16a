// Package effort says how much the tests of this run do: little with -short, the usual without, and
// everything with FEDSIM_TEST_LONG=1 as in .ci/long. FEDSIM_TEST_LONG=load adds tests that load a
// machine for many minutes. Only tests import it.
package effort

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Garbage is GOGC of tests that are not long, and of the commands that they start, unless the environment has one. A test
// holds little and lives for seconds: with Go's default, collecting takes up to a fifth of its processor time.
const Garbage = 400

// Benchmarks keep Go's default, which programs have.
func init() {
	bench := slices.ContainsFunc(os.Args, func(a string) bool { return strings.HasPrefix(a, "-test.bench=") })
	if os.Getenv("GOGC") == "" && !Long() && !bench {
		debug.SetGCPercent(Garbage)
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

// LoadOnly skips a test that loads a machine for many minutes.
func LoadOnly(t testing.TB, why string) {
	t.Helper()
	if !Load() {
		t.Skipf("%s: %s=load runs it", why, Variable)
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
