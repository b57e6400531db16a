package results

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"github.com/fedsim/fedsim/config"
)

// lockName is a file in the hidden folder of a run under way, locked by its process.
const lockName = ".lock"

// errHeld is returned by lock if a living process holds the lock.
var errHeld = errors.New("the lock is held")

// hidden matches the hidden folder of a run under way: the run's name and a value of rand.Text.
var hidden = regexp.MustCompile(`^\.(.+)-[A-Z2-7]{26}$`)

// Alone waits until no other process holds the lock of a folder, and holds it until release is called or the process ends. It
// makes the folder if there is none. waits is called if another process holds the lock. The error is the context's if that
// ends first. On systems without locks Alone returns at once.
func Alone(ctx context.Context, dir string, waits func()) (release func(), err error) {
	if err = os.MkdirAll(dir, 0o777); err != nil || !locks {
		return func() {}, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	free := func() { f.Close() } //nolint:errcheck // which frees the lock
	if lock(f, false) == nil {
		return free, nil
	}
	waits()
	held := make(chan error, 1)
	go func() { held <- lock(f, true) }()
	select {
	case err = <-held:
		return free, err
	case <-ctx.Done():
		go func() { // the file stays open until lock has returned
			<-held //nolint:errcheck // the file is closed whether it was locked or not
			free()
		}()
		return nil, ctx.Err()
	}
}

// reserve makes the hidden folder and locks it. It removes a folder that a killed process left. It
// fails if a living run has already reserved a name given by the user.
func (f *Folder) reserve(temporary string) (err error) {
	dir, err := os.Open(f.out)
	if err != nil {
		return err
	}
	defer dir.Close()                      //nolint:errcheck // it is only locked
	if err = lock(dir, true); err != nil { // one process at a time looks and reserves; it holds the lock for an instant
		return err
	}
	files, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, x := range files {
		found := hidden.FindStringSubmatch(x.Name())
		if found == nil || !x.IsDir() {
			continue
		}
		path := filepath.Join(f.out, x.Name())
		held, failed := abandon(path)
		if failed != nil {
			return failed
		}
		if held && f.named && found[1] == f.name {
			return config.Errorf("another run called %s is under way, in %s; give another --name, or await its end", f.name, path)
		}
	}
	if err = os.Mkdir(temporary, 0o777); err != nil {
		return err
	}
	f.temporary = temporary
	if f.lock, err = os.Create(filepath.Join(temporary, lockName)); err != nil {
		return err
	}
	return lock(f.lock, true)
}

// abandon removes the hidden folder of a run whose process is gone, and reports whether it is still held. A
// folder without a lock file is left alone: its owner is unknown.
func abandon(path string) (held bool, err error) {
	l, err := os.Open(filepath.Join(path, lockName))
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	defer l.Close() //nolint:errcheck // it is only locked
	if errors.Is(lock(l, false), errHeld) {
		return true, nil
	}
	return false, os.RemoveAll(path)
}

// release removes the lock, so that it does not stand in the finished folder.
func (f *Folder) release() error {
	if f.lock == nil {
		return nil
	}
	err := errors.Join(os.Remove(filepath.Join(f.temporary, lockName)), f.lock.Close())
	f.lock = nil
	return err
}
