package mask

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// SecretSize is the length in bytes of the secret behind a mask.
const SecretSize = 32

// KeySize is the length in bytes of the AES-128 key of a mask.
const KeySize = 16

// Kind says whose secret a mask comes from.
type Kind uint8

const (
	// Pair is a mask of two clients, from the X25519 secret that they share.
	Pair Kind = iota + 1
	// Self is a client's own mask, from a seed that it drew.
	Self
)

// String returns the item that stands for the kind in the transcript.
func (k Kind) String() string {
	switch k {
	case Pair:
		return "pair"
	case Self:
		return "self"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Context binds all masks of a round: two clients' masks cancel only if they have the same context.
type Context struct {
	Session [16]byte
	Round   uint64
	Binding [32]byte // hash of the plan, the roster and the model
}

// Spec describes a vector and with it the mask that fits.
type Spec struct {
	Name  string // unique within a round; any bytes
	Width uint8  // bits of the ring, from 8 to 64
	Len   int    // coordinates, from 0 to MaxLen
}

// checkShape reports a width and a length that no vector has.
func checkShape(width uint8, length int) error {
	var wrong problems.List
	wrong.If(width < MinWidth || width > MaxWidth, "%w: %d bits; it must have %d to %d", ErrWidth, width, MinWidth, MaxWidth)
	wrong.If(length < 0 || length > MaxLen, "%w: %d coordinates; there must be 0 to %d", ErrLen, length, MaxLen)
	return errors.Join(wrong...)
}

// DeriveKey returns the AES-128 key of a mask, as the package comment defines it. NewStream expands
// it; on its own it serves to check that two implementations agree. It returns the errors of
// [NewStream].
func DeriveKey(secret [SecretSize]byte, kind Kind, ctx Context, spec Spec) ([KeySize]byte, error) {
	wrong := problems.List{checkShape(spec.Width, spec.Len)}
	wrong.If(kind != Pair && kind != Self, "%w: %v; it must be Pair or Self", ErrKind, kind)
	if err := errors.Join(wrong...); err != nil {
		return [KeySize]byte{}, fmt.Errorf("mask: vector %q: %w", spec.Name, err)
	}
	info := protocol.NewTranscript("fedsim/secagg/mask/v1").Text(kind.String()).Bytes(ctx.Session[:]).Uint(ctx.Round).Bytes(ctx.Binding[:]).
		Text(spec.Name).Uint(uint64(spec.Width)).Uint(uint64(spec.Len)).Encoding()
	defer clear(secret[:])
	derived, err := hkdf.Key(sha256.New, secret[:], nil, string(info), KeySize)
	if err != nil {
		return [KeySize]byte{}, err
	}
	defer clear(derived)
	return [KeySize]byte(derived), nil
}

// Stream is a mask, kept as the key that it is expanded from. Any number of
// goroutines may add it to vectors at the same time.
type Stream struct {
	key  [KeySize]byte
	spec Spec
}

// NewStream derives a mask for the vector that spec describes. The secret of a Pair is the output
// of X25519. The caller must have refused the all-zero output (crypto/ecdh does). The error is
// ErrKind for a kind other than Pair and Self, and ErrWidth or ErrLen for a vector that cannot be.
func NewStream(secret [SecretSize]byte, kind Kind, ctx Context, spec Spec) (*Stream, error) {
	key, err := DeriveKey(secret, kind, ctx, spec)
	if err != nil {
		return nil, err
	}
	return &Stream{key, spec}, nil
}

// Wipe clears the key. No goroutine may use the stream meanwhile; adding it afterwards is an error.
func (s *Stream) Wipe() {
	*s = Stream{}
}
