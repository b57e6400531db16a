package dp

import (
	"flag"
	"os"
	"testing"
)

// Properties are checked on a quarter of rapid's usual number of cases, unless RAPID_CHECKS
// or -rapid.checks says how many: as in .ci/run, which has more patience.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := os.Getenv("RAPID_CHECKS") != ""
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
