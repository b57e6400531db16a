package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

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
	d, r := json.NewDecoder(bytes.NewReader(text)), new(Receipt)
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
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
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.sessions, session)
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
	return nil, &lasting{fmt.Errorf("%w. Its state was lost or restored from an old copy, or it shows parties different sessions. Ask the operator to put the newest copy of the log back. "+
		"To take this log all the same, move receipts.jsonl elsewhere and keep it: with it an auditor sees what is missing (node/losses.md)", err)}
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
