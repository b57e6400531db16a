// Package fewcases is imported by tests whose properties are slow to check. They are then
// checked on a quarter of rapid's usual number of cases, unless RAPID_CHECKS or
// -rapid.checks says how many: as in .ci/run, which has more patience.
package fewcases

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // declares the flag
)

// The command line is read after this, and wins.
func init() {
	if os.Getenv("RAPID_CHECKS") != "" {
		return
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}
