package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// Why a ledger is not used any more. Both errors are for good: see Ledger.Meet.
var (
	// ErrBehind: the client has signed a later head than its ledger has.
	ErrBehind = errors.New("store: this ledger is older than the newest that its client has signed")
	// ErrForked: the client has signed a head with other charges than its ledger has.
	ErrForked = errors.New("store: another copy of this ledger was charged")
	// ErrForged: a head without the client's signature. It says nothing of the ledger.
	ErrForged = errors.New("store: a head that is not signed by the ledger's client")
)

// Head names everything that a ledger has recorded, signed by its client. The aggregator keeps the
// latest and shows it when the client registers again. The number of charges is all that a head
// reveals: each charge is hashed with 16 random bytes.
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
	l.mu.Lock()
	h := Head{Count: l.count, Chain: l.chain}
	l.mu.Unlock()
	h.Signature = client.Sign(h.signed(client.Public()))
	return h
}

// Verify returns ErrForged unless the owner signed the head.
func (h *Head) Verify(owner admission.PublicKey) error {
	if !owner.Verify(h.signed(owner), h.Signature) {
		return fmt.Errorf("%w: %s", ErrForged, owner)
	}
	return nil
}

// Bytes encodes the head in protocol.HeadSize bytes.
func (h *Head) Bytes() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, protocol.HeadSize), h.Count)
	return append(append(b, h.Chain[:]...), h.Signature[:]...)
}

// ParseHead reads the bytes of a head. It does not verify the head.
func ParseHead(b []byte) (Head, error) {
	if len(b) != protocol.HeadSize {
		return Head{}, fmt.Errorf("%w: %d bytes, and a head has %d", ErrForged, len(b), protocol.HeadSize)
	}
	h := Head{Count: binary.BigEndian.Uint64(b)}
	b = b[copy(h.Chain[:], b[8:])+8:]
	copy(h.Signature[:], b)
	return h, nil
}

// Meet compares the ledger with a head of its client that was shown. A head that the ledger has
// reached and passed is well. A head without the owner's signature is ErrForged, and changes
// nothing. ErrBehind and ErrForked say that this ledger lacks charges: the ledger records nothing
// any more, also after a restart.
func (l *Ledger) Meet(h Head, owner admission.PublicKey) error {
	if err := h.Verify(owner); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overtaken != nil {
		return l.overtaken
	}
	lacks, err := l.lacks(&h)
	if err != nil || lacks == nil {
		return err
	}
	l.overtaken = lacks
	if l.newer == "" {
		return lacks
	}
	if err = atomicfile.Write(l.newer, h.Bytes(), 0o600); err != nil {
		return errors.Join(lacks, fmt.Errorf("keeping the proof: %w", err))
	}
	return lacks
}

// lacks returns an error if the ledger is not what a verified head of its client continues from. The
// caller holds mu.
func (l *Ledger) lacks(h *Head) (lacks, err error) {
	if h.Count > l.count {
		return &lasting{fmt.Errorf("%w: it has %d charges, and the client has signed for %d. %s", ErrBehind, l.count, h.Count, remedy)}, nil
	}
	var chain protocol.Hash
	n := uint64(0)
	err = l.log.Entries(func(entry []byte) error {
		if n < h.Count {
			n, chain = n+1, after(chain, entry)
		}
		return nil
	})
	if err != nil || chain == h.Chain {
		return nil, err
	}
	return &lasting{fmt.Errorf("%w: of the first %d charges that the client has signed for, not all are in it. %s", ErrForked, h.Count, remedy)}, nil
}

const remedy = "The state was restored from an old copy, or two machines run copies of it, so it does not know all that was spent. " +
	"Stop every copy. If the newest state is still there, start that one alone. Otherwise have the operator revoke this client and invite it again, and add up what both ledgers spent"

// Overtaken returns the error of Meet for which the ledger is not used any more; nil: it is used.
func (l *Ledger) Overtaken() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overtaken
}

// recall reads the head for which an earlier process stopped. The newest ledger may have been put
// back since.
func (l *Ledger) recall(owner admission.PublicKey) error {
	b, err := os.ReadFile(l.newer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var h Head
	if err == nil {
		h, err = ParseHead(b)
	}
	if err == nil {
		err = h.Verify(owner)
	}
	var lacks error
	if err == nil {
		lacks, err = l.lacks(&h)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.newer, err)
	}
	l.overtaken = lacks
	return nil
}
