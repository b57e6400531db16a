//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package results

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file or a folder until the file is closed or the process ends, however it ends. With wait it blocks
// until the lock is free. A file system without locks refuses none to a caller that waits, and counts as held for
// one that does not, so that no folder there is taken for abandoned.
func lock(f *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case err == nil || !errors.Is(err, syscall.EINTR) && wait:
			return nil
		case !errors.Is(err, syscall.EINTR):
			return errHeld
		}
	}
}
