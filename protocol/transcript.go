package protocol

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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

// signed returns the bytes that a plan's signature is over.
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

// signed returns the bytes that the signature of a final model is over.
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
