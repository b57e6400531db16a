//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package results

import (
	"errors"
	"os"
	"syscall"
)

// locks reports whether processes of this system can lock files.
const locks = true

// lock locks a file or a folder until the file is closed or the process ends, however it ends. With
// wait it blocks until the lock is free. On a file system without locks a caller that waits always
// gets the lock, and a caller that does not wait never does. So no folder there counts as
// abandoned.
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
