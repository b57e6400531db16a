package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve keeps room on the disk for a file of so many bytes. Some file systems cannot, and a write may then fail later.
func reserve(f *os.File, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	err := unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return f.Truncate(bytes)
	}
	return err
}
