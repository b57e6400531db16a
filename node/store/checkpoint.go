package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// SaveCheckpoint writes a checkpoint to an existing folder, and returns once it would
// survive a power failure. The newest checkpoint becomes the previous one. If it cannot be
// written, the newest is unchanged; if the process is killed before it is done, it is, or
// has become the previous one with none newer. Only one process saves to a folder; a checkpoint of another
// experiment, or of another version of this program, is not replaced (ErrOtherExperiment,
// ErrFormat).
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
		err = atomicfile.Rename(path, filepath.Join(dir, previous))
	}
	if err == nil {
		err = atomicfile.Rename(draft, path)
	}
	if err != nil {
		return fmt.Errorf("store: saving a checkpoint: %w", errors.Join(err, os.Remove(draft)))
	}
	return nil
}

// LoadCheckpoint reads the newest checkpoint of a folder. If that is missing or damaged
// it reads the previous one, and fallback says why: the rounds since are lost, and
// clients refuse their numbers. A checkpoint of another experiment is refused
// (ErrOtherExperiment), or of another version (ErrFormat); an empty folder is
// ErrNoCheckpoint, and one without a valid checkpoint ErrCorrupt.
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
