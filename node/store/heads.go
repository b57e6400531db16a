package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// Heads keeps the latest signed head of each client's ledger. It is no account: whatever of it is
// lost, clients show again when they register. A head is on disk after headsPause. It may be used by several goroutines.
type Heads struct {
	path string // "": in memory alone, or closed

	mu      sync.Mutex
	heads   map[admission.PublicKey]Head
	pending *time.Timer // will write the file; nil: nothing is pending
	failed  error       // why the file lacks some heads; nil: it does not
	told    bool        // Keep has returned failed
}

const (
	headsFormat = "fedsim-heads-v1"
	// headsPause is the time until heads are on disk.
	headsPause = time.Second
)

// NewHeads keeps heads in memory alone.
func NewHeads() *Heads { return &Heads{heads: make(map[admission.PublicKey]Head)} }

// OpenHeads reads the file at the path, which is made if it is missing. It refuses a file that was changed since it was written,
// except for a last line that is cut short. On a full disk the heads stay in memory until there is room: see Check.
func OpenHeads(path string) (*Heads, error) {
	heads, err := ReadHeads(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h := &Heads{path: path, heads: heads}
	_ = h.write() // see Check
	return h, nil
}

// ReadHeads reads the file of OpenHeads and changes nothing. Every signature is verified. Of a missing file there are no heads.
func ReadHeads(path string) (map[admission.PublicKey]Head, error) {
	h := NewHeads()
	text, err := os.ReadFile(path)
	if err == nil {
		if err = h.parse(text); err != nil {
			err = fmt.Errorf("%s, the heads of clients' ledgers: %w; delete it: clients show their heads again when they register", path, err)
		}
	}
	return h.heads, err
}

func (h *Heads) parse(text []byte) error {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if string(lines[0]) != headsFormat+"\n" {
		return fmt.Errorf("%w: it does not begin with %s", ErrFormat, headsFormat)
	}
	for i, line := range lines[1:] {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil // the end, or a line that is cut short
		}
		b, err := hex.DecodeString(string(bytes.TrimSuffix(line, []byte("\n"))))
		var owner admission.PublicKey
		var head Head
		if err == nil {
			owner, head, err = parsePair(b)
		}
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrCorrupt, i+2, err)
		}
		h.heads[owner] = head
	}
	return nil
}

// pairSize is the length in bytes of an owner and a head.
const pairSize = len(admission.PublicKey{}) + protocol.HeadSize

func parsePair(b []byte) (owner admission.PublicKey, head Head, err error) {
	head, err = OpenHead(b[copy(owner[:], b):], owner)
	return owner, head, err
}

func pair(owner admission.PublicKey, head Head) []byte {
	return append(owner[:len(owner):len(owner)], head.Bytes()...)
}

// write writes the file. The caller holds mu, or is the only one.
func (h *Heads) write() error {
	if h.path == "" {
		return nil
	}
	text := []byte(headsFormat + "\n")
	for _, owner := range slices.SortedFunc(maps.Keys(h.heads), func(a, b admission.PublicKey) int { return bytes.Compare(a[:], b[:]) }) {
		text = append(hex.AppendEncode(text, pair(owner, h.heads[owner])), '\n')
	}
	h.failed = atomicfile.Write(h.path, text, 0o600)
	h.told = h.told && h.failed != nil
	return h.failed
}

// Of returns the latest head of a client.
func (h *Heads) Of(owner admission.PublicKey) (Head, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	head, ok := h.heads[owner]
	return head, ok
}

// Keep keeps a head that is verified, unless there is a later one. An error says, once, that earlier heads are in memory alone: see Check.
func (h *Heads) Keep(owner admission.PublicKey, head Head) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.heads[owner]; ok && before.Count >= head.Count {
		return nil
	}
	h.heads[owner] = head
	if h.path != "" && h.pending == nil {
		h.pending = time.AfterFunc(headsPause, func() {
			locked.Do(&h.mu, func() {
				h.pending = nil
				_ = h.write() // see Check
			})
		})
	}
	if h.told {
		return nil
	}
	h.told = h.failed != nil
	return h.failed
}

// Check returns an error if heads are in memory alone. It first tries again to write them.
func (h *Heads) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		return nil
	}
	if err := h.write(); err != nil {
		return fmt.Errorf("the heads of clients' ledgers cannot be kept: %w", err)
	}
	return nil
}

// Encode writes the heads of some clients, for Take.
func (h *Heads) Encode(owners []admission.PublicKey) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []byte
	for _, owner := range owners {
		if head, ok := h.heads[owner]; ok {
			out = append(out, pair(owner, head)...)
		}
	}
	return out
}

// Take keeps the heads that Encode wrote elsewhere, as far as they are later than its own.
func (h *Heads) Take(text []byte) error {
	for b := range slices.Chunk(text, pairSize) {
		owner, head, err := parsePair(b)
		if err == nil {
			err = h.Keep(owner, head)
		}
		if err != nil {
			return fmt.Errorf("store: heads of ledgers: %w", err)
		}
	}
	return nil
}

// Close has all heads on disk.
func (h *Heads) Close() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending != nil {
		h.pending.Stop()
	}
	if h.pending != nil || h.failed != nil {
		err = h.write()
	}
	h.path = ""
	return err
}

// Why a ledger is not used any more. Both errors are for good: see Ledger.Meet.
var (
	// ErrBehind: the client has signed a later head than its ledger has.
	ErrBehind = errors.New("store: this ledger is older than the newest that its client has signed")
	// ErrForked: the client has signed a head with other charges than its ledger has.
	ErrForked = errors.New("store: another copy of this ledger was charged")
	// ErrForged: a head without the client's signature. It says nothing of the ledger.
	ErrForged = errors.New("store: a head that is not signed by the ledger's client")
)

// Head names everything that a ledger has recorded, signed by its client. The aggregator keeps the latest and shows it when the
// client registers again. The number of charges is all that a head reveals: each charge is hashed with 16 random bytes.
type Head struct {
	Count     uint64 // charges
	Chain     protocol.Hash
	Signature admission.Signature
}

// nonceSize is the length in bytes of the random part of a ledger's entry.
const nonceSize = 16

// after is the chain with one more entry of a ledger.
func after(chain protocol.Hash, entry []byte) protocol.Hash {
	return protocol.NewTranscript("fedsim/store/head-entry/v1").Bytes(chain[:]).Bytes(entry).Sum()
}

// signed is the hash that the signature is over.
func (h *Head) signed(owner admission.PublicKey) protocol.Hash {
	return protocol.NewTranscript("fedsim/store/head/v1").Bytes(owner[:]).Uint(h.Count).Bytes(h.Chain[:]).Sum()
}

// Sign returns the head of the ledger as it is, signed by its client.
func (l *Ledger) Sign(client admission.PrivateKey) Head {
	list := l.charges()
	h := Head{Count: uint64(len(list)), Chain: chainOf(list)}
	h.Signature = client.Sign(h.signed(client.Public()))
	return h
}

// Bytes encodes the head in protocol.HeadSize bytes.
func (h *Head) Bytes() []byte {
	b, _ := binary.Append(make([]byte, 0, protocol.HeadSize), binary.BigEndian, h)
	return b
}

// OpenHead reads the bytes of a head that the owner has signed; else it returns ErrForged.
func OpenHead(b []byte, owner admission.PublicKey) (Head, error) {
	if len(b) != protocol.HeadSize {
		return Head{}, fmt.Errorf("%w: %d bytes, and a head has %d", ErrForged, len(b), protocol.HeadSize)
	}
	var h Head
	_, _ = binary.Decode(b, binary.BigEndian, &h) // it has the length
	if !owner.Verify(h.signed(owner), h.Signature) {
		return h, fmt.Errorf("%w: %s", ErrForged, owner)
	}
	return h, nil
}

// Meet compares the ledger with a head of its client that was shown. A head that the ledger has reached and passed is well. A head
// without the owner's signature is ErrForged, and changes nothing. ErrBehind and ErrForked say that this ledger lacks charges: the
// ledger records nothing any more, also after a restart.
func (l *Ledger) Meet(shown []byte, owner admission.PublicKey) error {
	h, err := OpenHead(shown, owner)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overtaken != nil {
		return l.overtaken
	}
	lacks := l.lacks(&h)
	if l.overtaken = lacks; lacks == nil || l.newer == "" {
		return lacks
	}
	if err = atomicfile.Write(l.newer, h.Bytes(), 0o600); err != nil {
		return errors.Join(lacks, fmt.Errorf("keeping the proof: %w", err))
	}
	return lacks
}

// lacks returns an error if the ledger is not what a verified head of its client continues from. The caller holds mu.
func (l *Ledger) lacks(h *Head) error {
	switch n := uint64(len(l.entries)); {
	case h.Count > n:
		return admission.Lasting(fmt.Errorf("%w: it has %d charges, and the client has signed for %d. %s", ErrBehind, n, h.Count, remedy))
	case chainOf(l.entries[:h.Count]) != h.Chain:
		return admission.Lasting(fmt.Errorf("%w: of the first %d charges that the client has signed for, not all are in it. %s", ErrForked, h.Count, remedy))
	}
	return nil
}

const remedy = "The state was restored from an old copy, or two machines run copies of it, so it does not know all that was spent. " +
	"Stop every copy. If the newest state is still there, start that one alone. Otherwise have the operator revoke this client and invite it again, and add up what both ledgers spent"

// Overtaken returns the error of Meet for which the ledger is not used any more; nil: it is used.
func (l *Ledger) Overtaken() error { return locked.Get(&l.mu, func() error { return l.overtaken }) }

// recall reads the head for which an earlier process stopped. The newest ledger may have been put back since.
func (l *Ledger) recall(owner admission.PublicKey) error {
	b, err := os.ReadFile(l.newer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var h Head
	if err == nil {
		h, err = OpenHead(b, owner)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.newer, err)
	}
	l.overtaken = l.lacks(&h)
	return nil
}
