package store

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

// WriteFile writes a file of a party's state that only the present user can read, in place of what
// is there: as a whole or not at all, and durable when it returns. A planted link at the path of
// the draft is not followed.
func WriteFile(path string, data []byte) error { return atomicfile.Write(path, data, 0o600) }

// MakeFolder makes the folder of a party's state, unless it is there. It refuses a folder that
// another user can write to: that user could exchange the keys and ledgers in it.
func MakeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store: making the folder of the state: %w", err)
	}
	return CheckFolder(dir)
}

// CheckWritable refuses a file or folder of a state that another user can write to (ErrShared).
func CheckWritable(path string, info fs.FileInfo) error { return ofOurs(path, info) }

// CheckFolder says what MakeFolder says of a folder that is there, and changes nothing.
func CheckFolder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("store: the folder of the state: %w", err)
	}
	return ofOurs(dir, info)
}
