package store

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks a file until it is closed, without waiting: a byte behind all that is ever written, since others may read the rest.
func lockFile(f *os.File, shared bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}
