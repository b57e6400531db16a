//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package atomicfile

import "os"

// LocksFolders reports whether processes of this system can lock folders.
const LocksFolders = false

// Lock locks nothing: this system has no locks that end with a process.
func Lock(*os.File, bool, bool) error { return nil }
