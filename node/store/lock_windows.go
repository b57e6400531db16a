package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// LockFile locks a file until it is closed, without waiting. If another process holds it, the error is ErrLocked. The lock is on a byte
// behind all that is ever written, since others may read the rest.
func LockFile(f *os.File, shared bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
