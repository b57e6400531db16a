//go:build unix

package pack

import (
	"errors"
	"os"
	"syscall"
)

// mapFile maps a file into memory, for as long as the process lives: the system reads what is used,
// and takes the memory back where it is short of it.
func mapFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only, and the mapping stays
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if int64(int(info.Size())) != info.Size() {
		return nil, errors.New("it is larger than what this machine can address")
	}
	return syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
}
