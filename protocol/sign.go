package protocol

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
)

// ErrSignature is returned for a plan or model that the server did not sign in this form.
var ErrSignature = errors.New("the server's signature is missing or does not verify; what was received is not what the server sent")

// SignPlan sets the signature of a plan: the server's Ed25519 signature (RFC 8032)
// over the encoding of the transcript of the domain "fedsim/protocol/signed-plan/v1"
// with one item, [Plan.Hash]. Every change of the plan, of its session and
// round too, voids it. An error is returned for a key of another length than
// ed25519.PrivateKeySize.
func SignPlan(key ed25519.PrivateKey, p *Plan) (err error) {
	p.Signature, err = sign(key, p.signed())
	return err
}

// VerifyPlan returns ErrSignature unless the plan is as the server signed it. A client
// calls it before it uses anything else in the plan.
func VerifyPlan(key ed25519.PublicKey, p *Plan) error {
	return verify(key, p.signed(), p.Signature)
}

// SignFinal sets the signature of a session's final model: the server's Ed25519 signature over the
// encoding of the transcript of the domain "fedsim/protocol/signed-final/v1" with the items session
// and SHA-256 of the model. It returns the errors of SignPlan.
func SignFinal(key ed25519.PrivateKey, s SessionID, m *Final) (err error) {
	m.Signature, err = sign(key, EndOf(s, m).signed())
	return err
}

// VerifyFinal returns ErrSignature unless the server signed this model as the
// final one of this session.
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
