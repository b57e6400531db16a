package node_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fedsim/fedsim/internal/effort"
)

// TestMain fails if a test leaves a goroutine or a socket behind.
func TestMain(m *testing.M) {
	flag.Parse()
	if effort.Long() && flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", "8") // they wait for deadlines most of the time
	}
	before := sockets()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeBuilt()
		if left := sockets() - before; code == 0 && left > 0 {
			fmt.Fprintf(os.Stderr, "%d sockets are still open\n", left)
			code = 1
		}
		os.Exit(code)
	}))
}

// sockets counts the sockets of this process; 0 where the system does not say.
func sockets() int {
	open, _ := filepath.Glob("/proc/self/fd/*") // the pattern is not malformed
	n := 0
	for _, fd := range open {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
