package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/protocol"
)

// Why a file is not opened or not written to. Errors wrap one of these and say
// which file it is about.
var (
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("store: another process has the file open; stop that one first")
	// ErrOwner: the file belongs to another party.
	ErrOwner = errors.New("store: the file belongs to another party")
	// ErrFormat: the file is of another kind, or another version of this program has written it. A start again does not
	// change that.
	ErrFormat error = &lasting{errors.New("store: the file is of another kind, or another version of this program has written it")}
	// ErrCorrupt: the file does not hold what was written to it.
	ErrCorrupt = errors.New("store: the file is damaged, and was left as it is; keep a copy of it, and check the disk")
	// ErrShared: another user can write to the folder.
	ErrShared = errors.New("store: others can write to the folder of the state")
	// ErrClosed: the log was closed, by Close or after a write that failed.
	ErrClosed = errors.New("store: the log is closed")
)

// lasting is an error that a start again does not change.
type lasting struct{ error }

func (e *lasting) Unwrap() error { return e.error }

// Usage reports that the call was wrong, so that a supervisor does not start the process again.
func (e *lasting) Usage() bool { return true }

// Foreign returns the error for entries that this version does not understand, of a log whose chain of hashes holds. It
// names the version that has written the log last.
func Foreign(log Log, err error) error {
	by := "by a version that left no name"
	if x, ok := log.(interface{ writer() string }); ok && x.writer() != "" {
		by = fmt.Sprintf("by %.200q", x.writer())
	}
	return fmt.Errorf("%w: %w. It is whole, was written %s, and this is %q. Use the version that wrote it, which continues from it: nothing is lost, and no party needs another identity",
		ErrFormat, err, by, version.Get())
}

// Log is an append-only list of entries. Its methods are for one goroutine at a
// time.
type Log interface {
	// Append adds entries, all or none, and returns once they are durable; with none it
	// only tries whether it could. After an error
	// it is not known whether they are, so the log closes; opening it again shows which
	// entries are there.
	Append(entries ...[]byte) error
	// Entries calls the function with every entry, in the order in which they were added,
	// until it returns an error, which Entries returns. An entry is valid until the
	// function returns.
	Entries(func(entry []byte) error) error
	// Close closes the file. Closing twice is no error.
	Close() error
}

// Kind is the purpose of a log, and its owner. Owner is 32 bytes that identify a party or a
// federation: a public key, or a hash.
type Kind struct {
	Format string // with a version, like "fedsim-ledger-v1"
	Owner  [32]byte
}

// chain is the digest of a log so far: of its kind, and then with every entry.
// It stands in the log beside the entries, so that none can be changed, lost or
// put elsewhere by a fault of the disk without being noticed.
type chain [sha256.Size]byte

func (k Kind) chain() chain {
	return protocol.NewTranscript("fedsim/store/log/v1").Text(k.Format).Bytes(k.Owner[:]).Sum()
}

func (c chain) add(entry []byte) chain {
	return protocol.NewTranscript("fedsim/store/entry/v1").Bytes(c[:]).Bytes(entry).Sum()
}

// memoryLog is a Log that a crash takes along.
type memoryLog struct {
	by      string // see Foreign; of a copy of a file
	entries [][]byte
	closed  bool
}

// NewMemoryLog makes a Log without a file, for tests and simulations.
func NewMemoryLog() Log { return new(memoryLog) }

func (l *memoryLog) writer() string { return l.by }

func (l *memoryLog) Append(entries ...[]byte) error {
	if l.closed {
		return ErrClosed
	}
	for _, e := range entries {
		l.entries = append(l.entries, slices.Clone(e))
	}
	return nil
}

func (l *memoryLog) Entries(f func(entry []byte) error) error {
	if l.closed {
		return ErrClosed
	}
	for _, e := range l.entries {
		if err := f(slices.Clone(e)); err != nil {
			return err
		}
	}
	return nil
}

func (l *memoryLog) Close() error {
	l.closed = true
	return nil
}
