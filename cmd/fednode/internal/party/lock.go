package party

import (
	"errors"
	"os"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/store"
)

// LockKey holds a key's file for this process, so that no second process of this machine uses the key. The lock ends with
// the process, or with unlock.
func LockKey(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err = store.LockFile(f, false); errors.Is(err, store.ErrLocked) {
		_ = f.Close() // only read
		return nil, cli.Misusef("--key %s: another process on this machine runs with this key; stop it first", path)
	}
	return func() { _ = f.Close() }, nil // a file system without locks has none
}
