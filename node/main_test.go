package node_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// Whatever the tests start has ended when they have.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("FEDSIM_TEST_FAULTS") != "" && flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", "8") // they wait for deadlines most of the time
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeBuilt()
		os.Exit(code)
	}))
}
