package testutil

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/effort"
)

// Ports are given out from these alone. A system takes ports of dialled connections from 32768 or 49152, so that no
// connection takes a port before the process that is to listen there, or while that process is down.
const (
	firstPort = 20000
	ports     = 12000
)

// next is the next port, counted from firstPort. Test binaries that run at the same time have process ids that are close
// to one another, and begin far apart.
var next atomic.Uint32

func init() { next.Store(uint32(os.Getpid()) * 101) }

// Port returns a port of TCP that was free a moment ago, and that no other test of this binary is given.
func Port(t testing.TB) string {
	t.Helper()
	for range ports {
		port := strconv.Itoa(firstPort + int(next.Add(1)%ports))
		if free(port) {
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// TwoPorts returns a port of TCP such that the port and the next were free a moment ago.
func TwoPorts(t testing.TB) int {
	t.Helper()
	for last := 0; ; {
		port, err := strconv.Atoi(Port(t))
		if err != nil {
			t.Fatal(err)
		}
		if port == last+1 {
			return last
		}
		last = port
	}
}

func free(port string) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Limit has kill end a process when the test ends, and fails a test whose process runs for longer than it may: who waits
// for the process then sees its end, and shows its log. Otherwise the test would wait until go test stops all tests, which
// leaves the process behind. kill is called for a process that has ended, too, and returns an error then.
func Limit(t testing.TB, kill func() error) {
	t.Helper()
	limit := effort.Of(5*time.Minute, 5*time.Minute, 15*time.Minute)
	if effort.Load() {
		limit = time.Hour
	}
	killAfter(t, limit, kill)
}

func killAfter(t testing.TB, limit time.Duration, kill func() error) {
	t.Helper()
	killed := make(chan error, 1)
	late := time.AfterFunc(limit, func() { killed <- kill() })
	t.Cleanup(func() {
		if !late.Stop() && <-killed == nil {
			t.Errorf("a process was killed since it still ran after %v", limit)
		}
		_ = kill() // has ended, where all is well
	})
}
