package atomicfile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// LocksFolders reports whether processes of this system can lock folders.
const LocksFolders = false

// Lock locks a file until it is closed, without waiting. If another process holds it, the error is ErrHeld. The lock is on a byte
// behind all that is ever written, since others may read the rest.
func Lock(f *os.File, shared, _ bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrHeld
	}
	return err
}
