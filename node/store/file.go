package store

import (
	"fmt"
	"os"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

// WriteFile writes a file of a party's state that only the present user can read, in place
// of what is there: as a whole or not at all, and durable when it returns. A link that
// somebody planted where the file is drafted is not followed.
func WriteFile(path string, data []byte) error { return atomicfile.Write(path, data, 0o600) }

// MakeFolder makes the folder of a party's state, unless it is there. One that somebody
// else can write to is refused: keys and ledgers in it could be exchanged.
func MakeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store: making the folder of the state: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("store: the folder of the state: %w", err)
	}
	return ofOurs(dir, info)
}
