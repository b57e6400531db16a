package store

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/strictjson"
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
func (s *Sessions) ReadHashes(numbers []int64) ([]tlog.Hash, error) {
	return lists.Map(numbers, func(n int64) tlog.Hash { return s.hashes[n] }), nil
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

// Receipt shows a session's place in the log of sessions: the session's leaf, and proofs. The aggregator sends it with the final
// model. A party adds what it did itself, signs that, and keeps it. It has no rating, and its owner can hand it to an auditor.
type Receipt struct {
	Leaf       json.RawMessage `json:"leaf"`       // protocol.Leaf, the last entry of the log
	Checkpoint string          `json:"checkpoint"` // of the log that ends with it
	Proof      []byte          `json:"proof"`      // hashes that lead from the leaf to the checkpoint
	// Grown has hashes by an earlier size of the log: the log began with the same entries then. A kept receipt has none.
	Grown map[int64][]byte `json:"grown,omitempty"`

	Log     admission.PublicKey `json:"log,omitzero"`   // the aggregator's key
	Party   admission.PublicKey `json:"party,omitzero"` // who keeps the receipt
	Charged int                 `json:"charged"`        // the rounds that the party's ledger was charged for
	// Unchecked says that a relay had no proof that the log has grown from the party's last receipt. A reader of the log finds out.
	Unchecked bool                `json:"unchecked,omitempty"`
	Signature admission.Signature `json:"signature,omitzero"`
}

// joined and parted write a proof in a row of bytes, and read it.
func joined(proof []tlog.Hash) (b []byte) {
	for _, h := range proof {
		b = append(b, h[:]...)
	}
	return b
}

func parted(b []byte) (proof []tlog.Hash) {
	for c := range slices.Chunk(b, tlog.HashSize) {
		var h tlog.Hash
		copy(h[:], c)
		proof = append(proof, h)
	}
	return proof
}

// ParseReceipt reads a receipt, and verifies nothing.
func ParseReceipt(text []byte) (*Receipt, error) {
	r := new(Receipt)
	if err := strictjson.Read(text, r); err != nil {
		return nil, fmt.Errorf("%w: a receipt: %w", ErrLog, err)
	}
	return r, nil
}

// Verify checks that the leaf is in the log of the key, and that its server signed it. It returns the leaf and the log's tree.
func (r *Receipt) Verify(log admission.PublicKey) (*protocol.Leaf, tlog.Tree, error) {
	tree, err := OpenCheckpoint(r.Checkpoint, log)
	if err != nil {
		return nil, tree, err
	}
	if tree.N < 1 || tlog.CheckRecord(parted(r.Proof), tree.N, tree.Hash, tree.N-1, tlog.RecordHash(r.Leaf)) != nil {
		return nil, tree, fmt.Errorf("%w: the leaf is not the last of the %d entries of its checkpoint", ErrLog, tree.N)
	}
	leaf, err := protocol.ParseLeaf(r.Leaf)
	return leaf, tree, err
}

// signed is the hash that the party signs.
func (r *Receipt) signed() protocol.Hash {
	return protocol.NewTranscript("fedsim/store/receipt/v1").Bytes(r.Leaf).Text(r.Checkpoint).Bytes(r.Log[:]).Bytes(r.Party[:]).
		Uint(uint64(r.Charged)).Text(fmt.Sprint(r.Unchecked)).Sum()
}

// VerifyKept checks a receipt that a party has kept, by the keys in it.
func (r *Receipt) VerifyKept() (*protocol.Leaf, tlog.Tree, error) {
	if r.Log.IsZero() || r.Party.IsZero() || !r.Party.Verify(r.signed(), r.Signature) {
		return nil, tlog.Tree{}, fmt.Errorf("%w: the party %s has not signed this receipt", ErrLog, r.Party)
	}
	return r.Verify(r.Log)
}

// Receipts are the receipts of the sessions that a party has finished: its result is on disk. No ledger depends on them. Without
// them nothing is spent anew, but a client would fetch the result of the last session once more, and an aggregator could show it
// another log. Receipts may be used by several goroutines.
type Receipts struct {
	path string // "": in memory alone

	mu       sync.Mutex
	text     []byte // of the file
	sessions []string
	last     *Receipt // nil: none
	leaf     *protocol.Leaf
	tree     tlog.Tree
}

// OpenReceipts reads the file at the path, a receipt a line, which is made with the first session. It refuses a file that was changed
// since it was written (ErrCorrupt).
func OpenReceipts(path string) (*Receipts, error) {
	x := &Receipts{path: path}
	var err error
	if x.text, err = os.ReadFile(path); errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	for line := range bytes.Lines(x.text) {
		if err == nil {
			err = x.take(line)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s, the receipts of finished sessions: %w: %w. Put a copy back, or move the file elsewhere. "+
			"Then the result of the last session is fetched once more, and the log is taken as it is", path, ErrCorrupt, err)
	}
	return x, nil
}

// take notes a line of the file.
func (x *Receipts) take(line []byte) error {
	r, err := ParseReceipt(line)
	if err != nil {
		return err
	}
	leaf, tree, err := r.VerifyKept()
	if err == nil {
		x.sessions, x.last, x.leaf, x.tree = append(x.sessions, leaf.Session), r, leaf, tree
	}
	return err
}

// Has says whether a session in hex was finished.
func (x *Receipts) Has(session string) bool {
	return locked.Get(&x.mu, func() bool { return slices.Contains(x.sessions, session) })
}

// Last returns the receipt of the last session that was finished, the session's leaf, and the size of the log then. nil: none.
func (x *Receipts) Last() (*Receipt, *protocol.Leaf, int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last, x.leaf, x.tree.N
}

// ErrTwoLogs is wrapped by the error for a log that has not grown from the log of the last receipt.
var ErrTwoLogs = errors.New("the aggregator's log of sessions lacks or changes what it has shown before")

// Meet checks a receipt that the aggregator shows: it is of that key's log, which has grown from the last log that was seen. Behind a
// relay a proof may be missing, and the receipt says so.
func (x *Receipts) Meet(r *Receipt, log admission.PublicKey, relayed bool) (*protocol.Leaf, error) {
	leaf, tree, err := r.Verify(log)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	proof, proved := r.Grown[x.tree.N]
	r.Log, r.Unchecked = log, false
	switch {
	case x.last == nil || x.last.Log == log && tree == x.tree:
		return leaf, nil
	case x.last.Log != log:
		err = fmt.Errorf("%w: %s has signed it, and before %s", ErrTwoLogs, log, x.last.Log)
	case tree.N < x.tree.N:
		err = fmt.Errorf("%w: it has %d entries, and had %d", ErrTwoLogs, tree.N, x.tree.N)
	case !proved && relayed:
		r.Unchecked = true
		return leaf, nil
	case tlog.CheckTree(parted(proof), tree.N, tree.Hash, x.tree.N, x.tree.Hash) == nil:
		return leaf, nil
	default:
		err = fmt.Errorf("%w: its first %d entries are others", ErrTwoLogs, x.tree.N)
	}
	return nil, admission.Lasting(fmt.Errorf("%w. Its state was lost or restored from an old copy, or it shows parties different sessions. Ask the operator to put the newest copy of the log back. "+
		"To take this log all the same, move receipts.jsonl elsewhere and keep it: with it an auditor sees what is missing (node/losses.md)", err))
}

// Add keeps a receipt that was met, signed by the party, durably when it returns. After an error it is not kept.
func (x *Receipts) Add(r *Receipt, party admission.PrivateKey, charged int) error {
	kept := *r
	kept.Grown, kept.Party, kept.Charged = nil, party.Public(), charged
	kept.Signature = party.Sign(kept.signed())
	line, err := json.Marshal(&kept)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil || x.last != nil && bytes.Equal(x.last.Leaf, r.Leaf) {
		return err
	}
	text := slices.Concat(x.text, line, []byte("\n"))
	if x.path != "" {
		err = atomicfile.Write(x.path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("store: keeping the receipt of a session: %w", err)
	}
	x.text = text
	return x.take(line)
}
