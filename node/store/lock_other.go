//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package store

import "os"

// LockFile locks nothing: this system has no locks that end with a process.
func LockFile(*os.File, bool) error { return nil }
