//go:build unix

package store

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// CheckWritable refuses a file or folder of a state that another user can write to (ErrShared). Root can anyway.
func CheckWritable(dir string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%w: %s has mode %#o; put it right with chmod go-w %[2]s", ErrShared, dir, mode)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() && os.Geteuid() != 0 {
		return fmt.Errorf("%w: %s belongs to user %d, and this process is of user %d; give it a folder of its own", ErrShared, dir, s.Uid, os.Geteuid())
	}
	return nil
}
