// Package fewcases is imported by tests whose properties are slow to check. They are then
// checked on a quarter of rapid's usual number of cases, unless the tests are long or
// -rapid.checks says how many.
package fewcases

import (
	"flag"

	_ "pgregory.net/rapid" // declares the flag

	"github.com/fedsim/fedsim/internal/effort"
)

// The command line is read after this, and wins.
func init() {
	if effort.Long() {
		return
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}
