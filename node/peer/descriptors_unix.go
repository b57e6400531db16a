//go:build unix

package peer

import "syscall"

// descriptors returns how many files the process may open.
func descriptors() (limit uint64, ok bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), err == nil //nolint:unconvert // signed on some systems
}
