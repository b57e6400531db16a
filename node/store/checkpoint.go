package store

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/protocol"
)

// Reasons for which there is no checkpoint to resume from.
var (
	// ErrNoCheckpoint: nothing was saved yet.
	ErrNoCheckpoint = errors.New("store: there is no checkpoint")
	// ErrOtherExperiment: the checkpoint is of another experiment.
	ErrOtherExperiment = errors.New("store: the checkpoint is of another experiment; use that one's file, or another folder")
)

// Checkpoint is the state of a server at one moment, or the state of a client's own training.
type Checkpoint struct {
	Session    protocol.SessionID
	Round      uint64
	Experiment protocol.Hash // of everything that the parties agreed on
	State      []byte        // in its owner's form: of a server, model included
}

// The files of a folder: the newest checkpoint and its predecessor.
const (
	newest   = "checkpoint"
	previous = "checkpoint.previous"
)

// A checkpoint's file is the magic, then session (16 bytes), round (8, big
// endian), experiment (32), the state, and the SHA-256 of all before.
const (
	magic      = "fedsim-checkpoint-v1\n"
	headerSize = len(magic) + 16 + 8 + 32
)

// SaveCheckpoint writes a checkpoint to an existing folder, and returns once it would survive a power failure. The newest
// checkpoint becomes the previous one. If it cannot be written, or the process is killed before it is done, the newest is unchanged.
// Only one process saves to a folder; a checkpoint of another experiment or version is not replaced (ErrOtherExperiment, ErrFormat).
func SaveCheckpoint(dir string, c *Checkpoint) error {
	path := filepath.Join(dir, newest)
	before, err := readCheckpoint(path)
	switch {
	case err == nil && before.Experiment != c.Experiment:
		return before.refuse(path, c.Experiment)
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt):
		return err
	}
	draft, err := atomicfile.Draft(path, c.encode(), 0o600)
	if err != nil {
		return fmt.Errorf("store: saving a checkpoint: %w", err)
	}
	if before != nil { // a damaged newest file is overwritten: previous is the fallback then
		err = atomicfile.Link(path, filepath.Join(dir, previous))
	}
	if err == nil {
		err = atomicfile.Rename(draft, path)
	}
	if err != nil {
		return fmt.Errorf("store: saving a checkpoint: %w", errors.Join(err, atomicfile.Remove(draft)))
	}
	return nil
}

// LoadCheckpoint reads the newest checkpoint of a folder. If that is missing or damaged it reads the previous one, and fallback
// says why: the rounds since are lost, and clients refuse their numbers. A checkpoint of another experiment is refused
// (ErrOtherExperiment), or of another version (ErrFormat); an empty folder is ErrNoCheckpoint, and one without a valid checkpoint
// ErrCorrupt.
func LoadCheckpoint(dir string, experiment protocol.Hash) (c *Checkpoint, fallback, err error) {
	c, path, fallback, err := LastCheckpoint(dir)
	if err == nil && c.Experiment != experiment {
		return nil, nil, c.refuse(path, experiment)
	}
	return c, fallback, err
}

// LastCheckpoint is LoadCheckpoint of whatever experiment, with its file.
func LastCheckpoint(dir string) (c *Checkpoint, path string, fallback, err error) {
	path = filepath.Join(dir, newest)
	c, err = readCheckpoint(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) {
		fallback, path = err, filepath.Join(dir, previous)
		c, err = readCheckpoint(path)
	}
	switch {
	case errors.Is(fallback, fs.ErrNotExist) && errors.Is(err, fs.ErrNotExist):
		return nil, path, nil, fmt.Errorf("%w in %s", ErrNoCheckpoint, dir)
	case err != nil:
		return nil, path, nil, errors.Join(fallback, err)
	}
	return c, path, fallback, nil
}

func (c *Checkpoint) refuse(path string, experiment protocol.Hash) error {
	return fmt.Errorf("%s: %w: it is of %x, and this is %x", path, ErrOtherExperiment, c.Experiment[:8], experiment[:8])
}

func (c *Checkpoint) encode() []byte {
	b := make([]byte, 0, headerSize+len(c.State)+sha256.Size)
	b = append(append(b, magic...), c.Session[:]...)
	b = binary.BigEndian.AppendUint64(b, c.Round)
	b = append(append(b, c.Experiment[:]...), c.State...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func readCheckpoint(path string) (*Checkpoint, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := decodeCheckpoint(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func decodeCheckpoint(b []byte) (*Checkpoint, error) {
	end := len(b) - sha256.Size
	if end < headerSize {
		return nil, fmt.Errorf("%w: %d bytes, and a checkpoint has at least %d", ErrCorrupt, len(b), headerSize+sha256.Size)
	}
	switch {
	case sha256.Sum256(b[:end]) != [sha256.Size]byte(b[end:]):
		return nil, fmt.Errorf("%w: the checksum is wrong", ErrCorrupt)
	case string(b[:len(magic)]) != magic: // and sound, so it was meant to be so
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrFormat, magic)
	}
	c := new(Checkpoint)
	rest := b[len(magic):end]
	rest = rest[copy(c.Session[:], rest):]
	c.Round = binary.BigEndian.Uint64(rest)
	rest = rest[8:]
	c.State = bytes.Clone(rest[copy(c.Experiment[:], rest):])
	return c, nil
}

// spoolPattern has the names of spools. They end as drafts do, which a new process does not take for its own.
const spoolPattern = "spool-*.tmp"

// Spools are files in a folder for pieces that wait for a while and would take too much memory. A file is only
// readable for the present user, and is gone with the process's use of it. Pieces are sealed with a key that only
// memory has: a piece of a damaged, exchanged or older file is an error, and a file that is left behind is of no use.
type Spools struct{ dir string }

// OpenSpools opens the spools of a folder. It removes the files of a process that was killed.
func OpenSpools(dir string) (*Spools, error) {
	left, err := filepath.Glob(filepath.Join(dir, spoolPattern))
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if err = os.Remove(path); err != nil {
			return nil, fmt.Errorf("store: a spool that was left behind: %w", err)
		}
	}
	return &Spools{dir}, nil
}

// Spool is a file of pieces of one size. Its methods may be called by several goroutines at once.
type Spool struct {
	path   string
	pieces int64
	size   int
	seal   cipher.AEAD

	mu   sync.RWMutex    // of what follows
	file *os.File        // nil: dropped
	put  protocol.Bitmap // the pieces that were put
}

// Open makes a spool of so many pieces of a size, and keeps room for it on the disk.
func (s *Spools) Open(pieces int64, size int) (*Spool, error) {
	var key [16]byte
	_, _ = rand.Read(key[:])          // never fails
	block, _ := aes.NewCipher(key[:]) // of a size that it takes
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(s.dir, spoolPattern) // with mode 0600
	if err != nil {
		return nil, fmt.Errorf("store: a spool: %w", err)
	}
	x := &Spool{path: f.Name(), pieces: pieces, size: size, seal: seal, file: f, put: protocol.NewBitmap(int(pieces))}
	bytes := pieces * int64(x.sealed())
	if err = reserve(f, bytes); err != nil {
		x.Drop()
		return nil, fmt.Errorf("store: %s: %w; shares of clients wait there, %d bytes: free as much on the disk of --state, or move that folder to a larger disk", x.path, err, bytes)
	}
	return x, nil
}

func (x *Spool) sealed() int { return x.size + x.seal.Overhead() }

// nonce is a piece's own, since a piece is put once.
func (x *Spool) nonce(number int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, x.seal.NonceSize()-8), uint64(number))
}

// Put keeps pieces under the numbers from first on. They stand one behind the other. A number is put once.
func (x *Spool) Put(first int64, pieces []byte) error {
	n := int64(len(pieces) / x.size)
	if first < 0 || first+n > x.pieces || int64(len(pieces)) != n*int64(x.size) {
		return fmt.Errorf("store: %s: %d bytes as pieces from %d on, of %d pieces of %d bytes", x.path, len(pieces), first, x.pieces, x.size)
	}
	out := make([]byte, 0, int(n)*x.sealed())
	for i := range n {
		out = x.seal.Seal(out, x.nonce(first+i), pieces[int(i)*x.size:][:x.size], nil)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file == nil {
		return fmt.Errorf("store: %s: %w", x.path, fs.ErrClosed)
	}
	for i := first; i < first+n; i++ {
		if x.put.Has(int(i)) {
			return fmt.Errorf("store: %s: piece %d is put twice", x.path, i)
		}
		x.put.Set(int(i))
	}
	if _, err := x.file.WriteAt(out, first*int64(x.sealed())); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// ErrSpoiled is returned for a piece of a spool that is not as it was put.
var ErrSpoiled = errors.New("the file was damaged or changed")

// Get returns a piece as it was put. After Drop it returns an error that is fs.ErrClosed.
func (x *Spool) Get(number int64) ([]byte, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case x.file == nil:
		return nil, fmt.Errorf("store: %s: %w", x.path, fs.ErrClosed)
	case number < 0 || number >= x.pieces || !x.put.Has(int(number)):
		return nil, fmt.Errorf("store: %s: piece %d was not put", x.path, number)
	}
	b := make([]byte, x.sealed())
	if _, err := x.file.ReadAt(b, number*int64(x.sealed())); err != nil {
		return nil, fmt.Errorf("store: %s: piece %d: %w", x.path, number, err)
	}
	b, err := x.seal.Open(b[:0], x.nonce(number), b, nil)
	if err != nil {
		return nil, fmt.Errorf("store: %s: piece %d: %w", x.path, number, ErrSpoiled)
	}
	return b, nil
}

// Drop removes the file. It may be called again.
func (x *Spool) Drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file == nil {
		return
	}
	_ = x.file.Close()
	_ = os.Remove(x.path) // else the next start removes it
	x.file, x.put = nil, nil
}
