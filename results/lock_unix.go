//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package results

import (
	"errors"
	"os"
	"syscall"
)

// errHeld is returned if a living process holds the lock.
var errHeld = errors.New("the lock is held")

// lock locks a file or a folder until the file is closed or the process ends, however it ends. A file system
// without locks counts as unlocked.
func lock(f *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	if err := syscall.Flock(int(f.Fd()), how); errors.Is(err, syscall.EWOULDBLOCK) {
		return errHeld
	}
	return nil
}
