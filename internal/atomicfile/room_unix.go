//go:build linux || darwin

package atomicfile

import "golang.org/x/sys/unix"

// Free returns the bytes that are left on the disk of a folder, for users other than root.
func Free(dir string) (bytes uint64, known bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
