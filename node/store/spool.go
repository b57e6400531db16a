package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fedsim/fedsim/protocol"
)

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
	_, _ = rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
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
