package store

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// SessionFolder is the folder in an aggregator's state with the log of sessions. Its files have the form of C2SP's tlog-tiles and
// tlog-checkpoint: others' tools read it, and any server of files publishes it.
const SessionFolder = "log"

const (
	checkpointFile = "checkpoint"             // of a log: its size and hash, signed
	tilePlain      = "go.sum database tree\n" // what package tlog has in place of a checkpoint's origin
)

// ErrLog is wrapped by the error for a log of sessions, or a checkpoint or proof of one, that does not hold.
var ErrLog = errors.New("the log of sessions does not hold")

// Sessions is the content of a log of sessions.
type Sessions struct {
	Tree       tlog.Tree
	Entries    [][]byte
	checkpoint string
	hashes     []tlog.Hash // by their numbers in package tlog
}

// ReadHashes returns hashes of the tree, for package tlog.
func (s *Sessions) ReadHashes(numbers []int64) (out []tlog.Hash, err error) {
	for _, n := range numbers {
		out = append(out, s.hashes[n])
	}
	return out, nil
}

// add puts an entry behind the others.
func (s *Sessions) add(entry []byte) error {
	more, err := tlog.StoredHashes(s.Tree.N, entry, s)
	if err != nil {
		return err
	}
	s.Entries, s.hashes = append(s.Entries, entry), append(s.hashes, more...)
	s.Tree, err = s.At(s.Tree.N + 1)
	return err
}

// At returns the tree of the first entries.
func (s *Sessions) At(size int64) (tlog.Tree, error) {
	if size > int64(len(s.Entries)) {
		return tlog.Tree{}, fmt.Errorf("%w: it has %d entries, and had %d", ErrLog, len(s.Entries), size)
	}
	hash, err := tlog.TreeHash(size, s)
	return tlog.Tree{N: size, Hash: hash}, err
}

// verifier returns the verifier of checkpoints with the name that the key signs.
func verifier(name string, key admission.PublicKey) (note.Verifier, error) {
	text, err := note.NewEd25519VerifierKey(name, key.Ed25519())
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(text)
}

// OpenCheckpoint returns the tree of a checkpoint that the key has signed.
func OpenCheckpoint(text string, key admission.PublicKey) (tree tlog.Tree, err error) {
	name, rest, _ := strings.Cut(text, "\n")
	v, err := verifier(name, key)
	if err == nil {
		_, err = note.Open([]byte(text), note.VerifierList(v))
	}
	if err == nil {
		tree, err = tlog.ParseTree([]byte(tilePlain + rest))
	}
	if err != nil {
		return tree, fmt.Errorf("%w: a checkpoint of %s: %w", ErrLog, key, err)
	}
	return tree, nil
}

const tileHeight, tileWidth = 8, 1 << 8

// tileName is a tile's file, in the form of C2SP.
func tileName(t tlog.Tile) string {
	return strings.Replace(strings.Replace(t.Path(), "tile/8/", "tile/", 1), "/data/", "/entries/", 1)
}

// bundle is the tile of entries that ends with a log of some size.
func bundle(size int64) tlog.Tile {
	return tlog.Tile{H: tileHeight, L: -1, N: (size - 1) / tileWidth, W: int((size-1)%tileWidth) + 1}
}

// ReadSessions reads a log by its files. It computes each tile and the tree's hash from the entries.
func ReadSessions(read func(name string) ([]byte, error), key admission.PublicKey) (*Sessions, error) {
	text, err := read(checkpointFile)
	if err != nil {
		return nil, err
	}
	s := &Sessions{checkpoint: string(text)}
	signed, err := OpenCheckpoint(s.checkpoint, key)
	for err == nil && s.Tree.N < signed.N {
		t := bundle(min(signed.N, s.Tree.N+tileWidth))
		var b []byte
		if b, err = read(tileName(t)); err != nil {
			return nil, fmt.Errorf("%w: the checkpoint is of %d entries: %w", ErrLog, signed.N, err)
		}
		for range t.W {
			if n := 2 + int(binary.BigEndian.Uint16(append(b, 0, 0)[:2])); err == nil && n <= len(b) {
				err, b = s.add(b[2:n:n]), b[n:]
			}
		}
		if s.Tree.N != min(signed.N, t.N*tileWidth+tileWidth) || len(b) > 0 {
			return nil, fmt.Errorf("%w: %s has not the %d entries that it should", ErrLog, tileName(t), t.W)
		}
	}
	if err == nil && s.Tree != signed {
		err = fmt.Errorf("%w: its entries have the hash %s, and the checkpoint is of %s", ErrLog, s.Tree.Hash, signed.Hash)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range tlog.NewTiles(tileHeight, 0, signed.N) {
		want, err := tlog.ReadTileData(t, s)
		if err != nil {
			return nil, err
		}
		if is, err := read(tileName(t)); err != nil || !bytes.Equal(is, want) {
			return nil, errors.Join(fmt.Errorf("%w: the tile %s is not of the entries", ErrLog, tileName(t)), err)
		}
	}
	return s, nil
}

// SessionLog is the aggregator's log of sessions. Entries are only ever added. It may be used by several goroutines.
type SessionLog struct {
	dir string // "": in memory alone
	key admission.PrivateKey
	note.Verifier

	mu sync.Mutex
	s  *Sessions
}

// Sign signs a checkpoint, for package note.
func (l *SessionLog) Sign(text []byte) ([]byte, error) {
	return ed25519.Sign(l.key.Ed25519(), text), nil
}

// OpenSessionLog opens the log in the state of a federation's aggregator, and begins one if there is none; without a state it is in
// memory alone. A log that does not hold is refused: clients would refuse what follows from it.
func OpenSessionLog(state string, f admission.Hash, aggregator admission.PrivateKey) (*SessionLog, error) {
	l := &SessionLog{key: aggregator, s: new(Sessions)}
	var err error
	if l.Verifier, err = verifier(fmt.Sprintf("fedsim/%x", f[:8]), aggregator.Public()); err != nil || state == "" {
		return l, err
	}
	l.dir = filepath.Join(state, SessionFolder)
	s, err := ReadSessions(ReadFolder(l.dir), aggregator.Public())
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrLog) {
		return l, nil
	}
	if l.s = s; err != nil {
		err = fmt.Errorf("%s: %w; put the newest copy of this folder back (node/losses.md)", l.dir, err)
	}
	return l, err
}

// ReadFolder reads files of a log's folder.
func ReadFolder(dir string) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))) }
}

// Add puts a leaf behind the others, durably when it returns, unless it is the last already. After an error it is not in the log.
func (l *SessionLog) Add(leaf *protocol.Leaf) error {
	entry, err := leaf.Encode()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.s.Entries); n > 0 && bytes.Equal(l.s.Entries[n-1], entry) {
		return nil
	}
	next := *l.s
	if err = next.add(entry); err != nil {
		return err
	}
	text, err := note.Sign(&note.Note{Text: l.Name() + "\n" + strings.TrimPrefix(string(tlog.FormatTree(next.Tree)), tilePlain)}, l)
	if next.checkpoint = string(text); err == nil && l.dir != "" {
		err = l.write(&next)
	}
	if err != nil {
		return fmt.Errorf("store: the log of sessions: %w", err)
	}
	l.s = &next
	return nil
}

// write writes the last entry and its tiles, and then the checkpoint that counts them.
func (l *SessionLog) write(s *Sessions) (err error) {
	last := bundle(s.Tree.N)
	var data []byte
	for _, e := range s.Entries[s.Tree.N-int64(last.W):] {
		data = append(binary.BigEndian.AppendUint16(data, uint16(len(e))), e...)
	}
	tiles := append(tlog.NewTiles(tileHeight, s.Tree.N-1, s.Tree.N), last)
	for _, t := range tiles {
		part := data
		if t.L >= 0 {
			part, err = tlog.ReadTileData(t, s)
		}
		if err == nil {
			err = l.writeFile(tileName(t), part)
		}
		if err != nil {
			return err
		}
	}
	if err = l.writeFile(checkpointFile, []byte(s.checkpoint)); err != nil {
		return err
	}
	for _, t := range tiles {
		if t.W == tileWidth { // its parts are of no use any more
			_ = os.RemoveAll(filepath.Join(l.dir, tileName(t)+".p"))
		}
	}
	return nil
}

// writeFile writes a file in a folder that is made if it is missing, durably.
func (l *SessionLog) writeFile(name string, data []byte) error {
	path := filepath.Join(l.dir, filepath.FromSlash(name))
	dir := filepath.Dir(path)
	_, err := os.Stat(dir)
	if err != nil {
		err = os.MkdirAll(dir, 0o700)
		for ; err == nil && len(dir) >= len(l.dir); err = atomicfile.Sync(dir) {
			dir = filepath.Dir(dir)
		}
	}
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data, 0o600)
}

// Last returns the number of entries and the last one; nil: none, or no log.
func (l *SessionLog) Last() (size int64, leaf *protocol.Leaf) {
	if l == nil {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if size = l.s.Tree.N; size > 0 {
		leaf, _ = protocol.ParseLeaf(l.s.Entries[size-1]) // it was added
	}
	return size, leaf
}

// Receipt proves that the last entry is in the log, and that the log has only grown since it had the sizes.
func (l *SessionLog) Receipt(sizes ...int64) (*Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.s.Tree.N
	proof, err := tlog.ProveRecord(n, n-1, l.s)
	if err != nil {
		return nil, err
	}
	r := &Receipt{Leaf: l.s.Entries[n-1], Checkpoint: l.s.checkpoint, Proof: joined(proof), Grown: make(map[int64][]byte)}
	for _, size := range sizes {
		if size > 0 && size <= n {
			grown, err := tlog.ProveTree(n, size, l.s)
			if err != nil {
				return nil, err
			}
			r.Grown[size] = joined(grown)
		}
	}
	return r, nil
}
