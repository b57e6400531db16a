package protocol

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dp"
)

// Transcript is an unambiguous encoding of a list of items under a domain. Every item, the domain first, follows its length in
// bytes (8 bytes, big endian), so that no two lists have the same encoding. Everything that is hashed, signed or used to derive
// keys goes through one. Make it with NewTranscript.
type Transcript struct{ b []byte }

// NewTranscript opens the transcript of a domain, which names what it is for.
func NewTranscript(domain string) *Transcript { return new(Transcript).Text(domain) }

// Bytes adds an item.
func (t *Transcript) Bytes(b []byte) *Transcript {
	t.b = binary.BigEndian.AppendUint64(t.b, uint64(len(b)))
	t.b = append(t.b, b...)
	return t
}

// Text adds a string.
func (t *Transcript) Text(s string) *Transcript {
	t.b = binary.BigEndian.AppendUint64(t.b, uint64(len(s)))
	t.b = append(t.b, s...)
	return t
}

// Uint adds an integer: 8 bytes, big endian.
func (t *Transcript) Uint(v uint64) *Transcript {
	t.b = binary.BigEndian.AppendUint64(t.b, 8)
	t.b = binary.BigEndian.AppendUint64(t.b, v)
	return t
}

// Float adds the bits of a number in IEEE 754: 8 bytes, big endian.
func (t *Transcript) Float(v float64) *Transcript { return t.Uint(math.Float64bits(v)) }

// Cohort adds clients, tolerance and colluders, an item each. If the clients are chosen, it adds
// the word for that, the number of enrolled clients, and the goal.
func (t *Transcript) Cohort(c Cohort) *Transcript {
	t.Uint(uint64(c.Clients)).Float(c.Tolerance).Float(c.Colluders)
	if c.Enrolled != 0 {
		t.Text("chosen").Uint(uint64(c.Enrolled)).Uint(uint64(c.Goal))
	}
	return t
}

// Release adds every field of a release, the noise included, as an item each. The sensitivity is one where it is declared: plans
// without keep the hashes that they had before there was one.
func (t *Transcript) Release(r Release) *Transcript {
	spread := uint64(0)
	if r.Noise.Spread {
		spread = 1
	}
	t.Text(r.Name).Uint(uint64(r.Len)).Float(r.L2).Float(r.L1).Float(r.LInf).
		Uint(uint64(r.MaxNonZero)).Float(r.Scale).Uint(uint64(r.Width)).
		Text(r.Noise.Kind.String()).Float(r.Noise.Variance).Float(r.Noise.Multiplier).
		Float(r.Noise.SamplingRate).Uint(uint64(r.Noise.Steps)).Uint(spread)
	if r.Sensitivity > 0 {
		t.Text("sensitivity").Float(r.Sensitivity)
	}
	return t
}

// Encoding returns the bytes written so far; the caller must not change them.
func (t *Transcript) Encoding() []byte { return t.b }

// Sum is the SHA-256 of the encoding.
func (t *Transcript) Sum() [sha256.Size]byte { return sha256.Sum256(t.b) }

// Hash binds everything in a plan, with the model that it broadcasts and without its signature: two
// plans of one hash are the same. It is the SHA-256 of the transcript of the domain
// "fedsim/protocol/plan/v1" with the items below. testdata/plan.json holds an example.
//
//   - session, round, phase
//   - clients, tolerance, colluders, and for chosen clients the word, enrolled and goal
//   - the number of releases
//   - of each release its name, length, bounds (L2, L1, LInf), max-non-zero, scale, width; of its
//     noise the kind's word, variance, multiplier, sampling rate, steps and 1 if it is spread, else
//     0; and for a declared sensitivity the word and the value
//   - the SHA-256 of the broadcast
func (p *Plan) Hash() [sha256.Size]byte {
	t := NewTranscript("fedsim/protocol/plan/v1").
		Bytes(p.Session[:]).Uint(p.Round).Text(p.Phase).
		Cohort(p.Cohort).
		Uint(uint64(len(p.Releases)))
	for _, r := range p.Releases {
		t.Release(r)
	}
	model := sha256.Sum256(p.Broadcast)
	return t.Bytes(model[:]).Sum()
}

// ErrSignature is returned for a plan or model that the server did not sign in this form.
var ErrSignature = errors.New("the server's signature is missing or does not verify; what was received is not what the server sent")

// SignPlan sets the signature of a plan: the server's Ed25519 signature (RFC 8032) over the encoding of the transcript of the
// domain "fedsim/protocol/signed-plan/v1" with one item, [Plan.Hash]. Every change of the plan, of its session and round too, voids
// it. An error is returned for a key of another length than ed25519.PrivateKeySize.
func SignPlan(key ed25519.PrivateKey, p *Plan) (err error) {
	p.Signature, err = sign(key, p.signed())
	return err
}

// VerifyPlan returns ErrSignature unless the plan is as the server signed it. A client
// calls it before it uses anything else in the plan.
func VerifyPlan(key ed25519.PublicKey, p *Plan) error {
	return verify(key, p.signed(), p.Signature)
}

// SignFinal sets the signature of a session's final model: the server's Ed25519 signature over the encoding of the transcript of
// the domain "fedsim/protocol/signed-final/v1" with the items session and SHA-256 of the model. It returns the errors of SignPlan.
func SignFinal(key ed25519.PrivateKey, s SessionID, m *Final) (err error) {
	m.Signature, err = sign(key, EndOf(s, m).signed())
	return err
}

// VerifyFinal returns ErrSignature unless the server signed this model as the final one of this session.
func VerifyFinal(key ed25519.PublicKey, s SessionID, m *Final) error {
	return EndOf(s, m).Verify(key)
}

func (p *Plan) signed() []byte {
	h := p.Hash()
	return NewTranscript("fedsim/protocol/signed-plan/v1").Bytes(h[:]).Encoding()
}

// End is the signed end of a session without the model. It shows that the server has ended the session.
type End struct {
	Session   SessionID `json:"session"`
	Model     []byte    `json:"model"` // SHA-256
	Signature []byte    `json:"signature"`
}

// EndOf returns the end of a session that has the final model.
func EndOf(s SessionID, m *Final) *End {
	model := sha256.Sum256(m.Model)
	return &End{s, model[:], m.Signature}
}

// Verify returns ErrSignature unless the server signed the end.
func (e *End) Verify(key ed25519.PublicKey) error { return verify(key, e.signed(), e.Signature) }

func (e *End) signed() []byte {
	return NewTranscript("fedsim/protocol/signed-final/v1").Bytes(e.Session[:]).Bytes(e.Model).Encoding()
}

// sign and verify hold back keys of a wrong length, since crypto/ed25519 panics on them.

func sign(key ed25519.PrivateKey, message []byte) ([]byte, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("the server's signing key has %d bytes, an Ed25519 one has %d", len(key), ed25519.PrivateKeySize)
	}
	return ed25519.Sign(key, message), nil
}

func verify(key ed25519.PublicKey, message, signature []byte) error {
	switch {
	case len(key) != ed25519.PublicKeySize:
		return fmt.Errorf("the server's public key has %d bytes, an Ed25519 one has %d", len(key), ed25519.PublicKeySize)
	case !ed25519.Verify(key, message, signature):
		return ErrSignature
	}
	return nil
}

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
