// Package testutil has helpers for tests of several rooms: processes and their ports, writers on a disk that fails, pages that
// all people can read, and the fields of a role. Only tests import it.
package testutil

import (
	"flag"

	"github.com/fedsim/fedsim/internal/effort"
)

// FewCases has rapid check properties that are slow on a quarter of its usual number of cases, unless the tests are long or
// -rapid.checks says how many. It is called from an init function: the command line is read later, and wins.
func FewCases() {
	if effort.Long() {
		return
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}
