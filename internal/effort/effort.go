// Package effort says how much the tests of this run are to do: a look with -short, what is
// usual without, and all of it with FEDSIM_TEST_LONG=1 as in .ci/run. FEDSIM_TEST_LONG=load
// adds what loads a machine for many minutes. Only tests import it.
package effort

import (
	"os"
	"testing"
)

// Variable is the environment variable that asks for long tests.
const Variable = "FEDSIM_TEST_LONG"

// Long reports whether all is to be done.
func Long() bool { return os.Getenv(Variable) != "" }

// LongOnly skips a test, or a part of one, unless all is to be done. why says what it costs,
// or what else stands for it.
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

// Of chooses a number of runs, cases or bytes.
func Of[T any](short, usual, long T) T {
	switch {
	case Long():
		return long
	case testing.Short():
		return short
	}
	return usual
}
