package protocol

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/dp"
)

// Claims are the parts of a session's statement that do not follow from the charges of its rounds. The server states them in the
// description of the session, and each client derives them again.
type Claims struct {
	Unit         string  `json:"unit"`
	Delta        float64 `json:"delta"`
	SamplerError float64 `json:"sampler_error"`
	// Search is the kind of the search that chose the settings by the same data, and SearchDigest the SHA-256 of its record in hex.
	Search       string `json:"search,omitempty"`
	SearchDigest string `json:"search_digest,omitempty"`
	// Start is the SHA-256 in hex of the releases that the session starts from; "" if it starts from nothing.
	Start string `json:"start,omitempty"`
}

// Leaf is an entry of the log of sessions: a session that begins, or with a model a session that has ended. Its form is JSON
// without spaces, with the keys in this order. testdata/leaves.json holds examples by another program.
type Leaf struct {
	Format    string `json:"format"`
	Session   string `json:"session"`   // in hex
	Agreement []byte `json:"agreement"` // SHA-256 of the public text that all terms follow from
	Plan      []byte `json:"plan"`      // SHA-256 of the description that the server signed
	Claims    Claims `json:"claims"`
	Clients   int    `json:"clients"` // of the cohort
	Rounds    int    `json:"rounds"`
	// Survivors are runs of rounds with the number of clients in each sum: 0 where nothing was released, and -1 where the aggregator
	// was started again since.
	Survivors [][2]int `json:"survivors,omitempty"`
	// Charges are the releases that a client in every round was charged for. A session that never ended counts in full.
	Charges []dp.Event `json:"charges"`
	Model   []byte     `json:"model,omitempty"` // SHA-256
	Server  []byte     `json:"server"`          // its public key
	// Signature is the server's: of the End, or without a model of the description.
	Signature []byte `json:"signature"`
}

// LeafFormat names the form of a leaf, and its version.
const LeafFormat = "fedsim-session-v1"

// MaxLeaf limits a leaf, in bytes, since a log of tiles states its length in 16 bits. MaxReceipt limits a leaf with its proofs.
const (
	MaxLeaf    = 1<<16 - 1
	MaxReceipt = 3 << 15
)

// ErrLeaf is wrapped by the error for an entry that is no leaf, or that its server did not sign.
var ErrLeaf = errors.New("no entry of the log of sessions")

// Encode returns the entry of the log.
func (l *Leaf) Encode() ([]byte, error) {
	b, err := json.Marshal(l)
	if err == nil && len(b) > MaxLeaf {
		err = fmt.Errorf("%w: it has %d bytes; at most %d fit", ErrLeaf, len(b), MaxLeaf)
	}
	return b, err
}

// ParseLeaf reads an entry in its one form, and verifies the server's signature. Whether the key is a server's, only a party knows.
func ParseLeaf(text []byte) (*Leaf, error) {
	l := new(Leaf)
	err := json.Unmarshal(text, l)
	if again, failed := l.Encode(); err != nil || failed != nil || !bytes.Equal(again, text) || l.Format != LeafFormat {
		return nil, fmt.Errorf("%w: %.80q", ErrLeaf, text)
	}
	end, err := l.End()
	if err != nil {
		return nil, err
	}
	signed := DescriptionHash([HashSize]byte(l.Plan))
	switch {
	case bytes.Equal(l.Server, make([]byte, ed25519.PublicKeySize)): // it takes a zero signature
		err = ErrSignature
	case l.Model != nil:
		err = end.Verify(l.Server)
	default:
		err = verify(l.Server, signed[:], l.Signature)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: session %s: %w", ErrLeaf, l.Session, err)
	}
	return l, nil
}

// Ended returns the entry for the end of a session that began with the leaf.
func (l *Leaf) Ended(f *Final, survivors [][2]int) *Leaf {
	end, model := *l, sha256.Sum256(f.Model)
	end.Model, end.Signature, end.Survivors = model[:], f.Signature, survivors
	return &end
}

// End returns the signed end of the session.
func (l *Leaf) End() (*End, error) {
	b, err := hex.DecodeString(l.Session)
	rounds := 0
	for _, run := range l.Survivors {
		if rounds += run[0]; run[0] <= 0 || run[1] < -1 || run[1] > l.Clients || rounds > l.Rounds {
			err = errors.New("the survivors are not of its rounds")
		}
	}
	if err != nil || len(b) != len(SessionID{}) || len(l.Agreement) != HashSize || len(l.Plan) != HashSize || l.Model != nil && len(l.Model) != HashSize || l.Clients < 1 || l.Rounds < 1 {
		return nil, fmt.Errorf("%w: session %.40q: digests, counts or survivors are not of a session", ErrLeaf, l.Session)
	}
	return &End{SessionID(b), l.Model, l.Signature}, nil
}

// DescriptionHash returns the hash that the server's signature of a session's description is over, by the SHA-256 of that.
func DescriptionHash(description [HashSize]byte) [HashSize]byte {
	return NewTranscript("fedsim/node/session/v1").Bytes(description[:]).Sum()
}
