//go:build unix

package training

import (
	"syscall"
	"time"
)

// processorTime is what this process has used of processors so far.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0 // it cannot fail with these arguments
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
