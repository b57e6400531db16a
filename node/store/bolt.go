package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/version"
)

// lockWait is the time that an opener waits for a process that is about to end.
const lockWait = 200 * time.Millisecond

// The buckets and keys of a log's database. Entries are numbered from 1, in 8
// bytes, big endian.
var (
	metaBucket    = []byte("meta")
	entriesBucket = []byte("entries")
	formatKey     = []byte("format")
	ownerKey      = []byte("owner")
	headKey       = []byte("head")   // see head
	writerKey     = []byte("writer") // the version that wrote last, for people
)

// boltLog is a Log in a bbolt database, whose transactions are synced to disk.
type boltLog struct {
	path   string
	file   *os.File  // the database's
	db     *bbolt.DB // nil: not open
	broken bool      // bbolt panicked, and may hold its own locks
	read   bool      // for reading alone
	count  uint64
	head   chain
	by     string // see writerKey; "": a version that left no name
}

func (l *boltLog) writer() string { return l.by }

// CreateLog makes the file of an empty log, which only the present user can read. An
// existing file is not changed (fs.ErrExist). If the process is killed, the file exists
// completely or not at all; a file PATH.*.tmp may be left behind.
func CreateLog(path string, k Kind) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("store: making a log: %w", err)
	}
	err = errors.Join(f.Close(), initialize(f.Name(), k))
	if err != nil {
		return fmt.Errorf("store: making the log %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	if err := atomicfile.Publish(f.Name(), path); err != nil {
		return fmt.Errorf("store: making the log %s: %w", path, err)
	}
	return nil
}

func initialize(path string, k Kind) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucket(entriesBucket); err != nil {
			return err
		}
		meta, err := tx.CreateBucket(metaBucket)
		if err != nil {
			return err
		}
		return errors.Join(meta.Put(formatKey, []byte(k.Format)), meta.Put(ownerKey, k.Owner[:]), meta.Put(headKey, head(0, k.chain(), tx)), meta.Put(writerKey, []byte(version.Get().String())))
	}), db.Close())
}

// head is the value of the head key: how many entries there are, their chain, and
// the transaction that wrote it, which is always the latest. Pages of earlier ones
// lie about in the file, and a damaged pointer to them would show the log as it was.
func head(count uint64, c chain, tx *bbolt.Tx) []byte {
	return append(append(number(count), number(uint64(tx.ID()))...), c[:]...)
}

const headSize = 8 + 8 + len(chain{})

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// OpenLog opens an existing log, and locks it against other processes until it is closed
// (ErrLocked). Every entry is read and checked: a file with other contents than were
// written is refused (ErrCorrupt) and left as it is, and may stay locked until the
// process ends. A log of another kind or owner is refused with ErrFormat or ErrOwner, a
// missing one with fs.ErrNotExist.
func OpenLog(path string, k Kind) (Log, error) {
	l := &boltLog{path: path}
	if err := l.open(k); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *boltLog) open(k Kind) error {
	err := l.guard(func() (err error) {
		l.db, err = bbolt.Open(l.path, 0o600, &bbolt.Options{Timeout: lockWait, OpenFile: l.openFile, ReadOnly: l.read})
		return err
	})
	var system syscall.Errno
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%s: %w", l.path, ErrLocked)
	case errors.As(err, &system):
		return fmt.Errorf("store: opening the log %s: %w", l.path, err)
	case err != nil && !errors.Is(err, ErrCorrupt):
		return fmt.Errorf("%s: %w: %w", l.path, ErrCorrupt, err)
	case err != nil:
		return err
	}
	if err := checkPages(l.file); err != nil {
		return fmt.Errorf("%s: %w: %w", l.path, ErrCorrupt, err)
	}
	return l.load(k)
}

// openFile opens what is there, and nothing that bbolt would take for a file that
// it must make into a database.
func (l *boltLog) openFile(path string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() == 0 {
		err = fmt.Errorf("%s: %w: it is empty", path, ErrCorrupt)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.file = f
	return f, nil
}

// load reads the whole log and checks it against its head.
func (l *boltLog) load(k Kind) error {
	format, err := l.get(metaBucket, formatKey)
	if err != nil {
		return err
	}
	owner, err := l.get(metaBucket, ownerKey)
	if err != nil {
		return err
	}
	found, err := l.get(metaBucket, headKey)
	if err != nil {
		return err
	}
	by, err := l.get(metaBucket, writerKey)
	if err != nil {
		return err
	}
	l.by = string(by)
	switch {
	case format == nil || len(owner) != len(k.Owner) || len(found) != headSize:
		return fmt.Errorf("%s: %w: it does not say what it is", l.path, ErrCorrupt)
	case string(format) != k.Format:
		if err := l.verify(Kind{string(format), [32]byte(owner)}, found); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w", l.path, Foreign(l, fmt.Errorf("its format is %.40q, and %q is needed", format, k.Format)))
	case !bytes.Equal(owner, k.Owner[:]):
		return fmt.Errorf("%s: %w: %x, and this is %x", l.path, ErrOwner, owner, k.Owner[:])
	}
	return l.verify(k, found)
}

// verify reads all entries of a log of the kind, and checks them against the head that was found.
func (l *boltLog) verify(k Kind, found []byte) error {
	l.count, l.head = binary.BigEndian.Uint64(found), k.chain()
	if err := l.Entries(func(entry []byte) error {
		l.head = l.head.add(entry)
		return nil
	}); err != nil {
		return err
	}
	return l.guard(func() error {
		return l.db.View(func(tx *bbolt.Tx) error {
			if !bytes.Equal(found, head(l.count, l.head, tx)) {
				return fmt.Errorf("%s: %w: its %d entries are not the last that were written", l.path, ErrCorrupt, l.count)
			}
			return nil
		})
	})
}

// Append adds entries in one transaction, and with it the new head. Without entries it
// writes the head again, which shows whether the disk takes what is written.
func (l *boltLog) Append(entries ...[]byte) error {
	if l.db == nil {
		return fmt.Errorf("%s: %w", l.path, ErrClosed)
	}
	count, c := l.count, l.head
	err := l.guard(func() error {
		return l.db.Update(func(tx *bbolt.Tx) error {
			bucket := tx.Bucket(entriesBucket)
			for _, e := range entries {
				count, c = count+1, c.add(e)
				if err := bucket.Put(number(count), e); err != nil {
					return err
				}
			}
			meta := tx.Bucket(metaBucket)
			return errors.Join(meta.Put(headKey, head(count, c, tx)), meta.Put(writerKey, []byte(version.Get().String())))
		})
	})
	if err != nil {
		return fmt.Errorf("store: writing to the log %s, which is now closed: %w", l.path, errors.Join(err, l.Close()))
	}
	l.count, l.head = count, c
	return nil
}

// Entries reads them one by one.
func (l *boltLog) Entries(f func(entry []byte) error) error {
	for n := uint64(1); n <= l.count; n++ {
		e, err := l.get(entriesBucket, number(n))
		if err != nil {
			return err
		}
		if e == nil {
			return fmt.Errorf("%s: %w: entry %d of %d is missing", l.path, ErrCorrupt, n, l.count)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// get copies a value; nil if there is none.
func (l *boltLog) get(bucket, key []byte) (value []byte, err error) {
	if l.db == nil {
		return nil, fmt.Errorf("%s: %w", l.path, ErrClosed)
	}
	err = l.guard(func() error {
		return l.db.View(func(tx *bbolt.Tx) error {
			if b := tx.Bucket(bucket); b != nil {
				value = bytes.Clone(b.Get(key))
			}
			return nil
		})
	})
	return value, err
}

// Close lets go of the file.
func (l *boltLog) Close() error {
	db, file := l.db, l.file
	l.db, l.file = nil, nil
	switch {
	case db != nil && !l.broken:
		return db.Close()
	case file != nil && l.broken:
		return file.Close()
	default:
		return nil
	}
}

// guard turns what bbolt does about damaged pages, which is to panic or to read
// where the file has ended, into ErrCorrupt.
func (l *boltLog) guard(f func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			l.broken = true
			err = fmt.Errorf("%s: %w: %v", l.path, ErrCorrupt, p)
		}
	}()
	return f()
}
