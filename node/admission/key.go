package admission

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/entropy"
)

// PublicKey is an Ed25519 public key: a party's identity, a ticket's, or the operator's. Its text is "fedsim-public-" and 58 letters and
// digits, with a checksum against copying errors. The zero PublicKey is no key.
type PublicKey [ed25519.PublicKeySize]byte

const (
	publicPrefix  = "fedsim-public-"
	privatePrefix = "fedsim-private-"
	checksumSize  = 4
)

// NewPublicKey checks an Ed25519 public key. It refuses two kinds of keys that crypto/ed25519 would accept: a non-canonical encoding of a
// key, and a point of small order. For such a point, signatures need no private key.
func NewPublicKey(k ed25519.PublicKey) (PublicKey, error) {
	var p PublicKey
	if len(k) != len(p) {
		return p, fmt.Errorf("%w: a public key of %d bytes; Ed25519 keys have %d", ErrMalformed, len(k), len(p))
	}
	copy(p[:], k)
	return p, p.check()
}

func (p PublicKey) check() error {
	point, err := new(edwards25519.Point).SetBytes(p[:])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %x is not an Ed25519 public key", ErrMalformed, p[:])
	case PublicKey(point.Bytes()) != p:
		return fmt.Errorf("%w: the public key %x is not in its one spelling", ErrMalformed, p[:])
	case new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1:
		return fmt.Errorf("%w: the public key %x is a point of small order: signatures for it need no private key", ErrMalformed, p[:])
	}
	return nil
}

// ParsePublicKey reads a key's text.
func ParsePublicKey(s string) (PublicKey, error) {
	b, err := unarmor(publicPrefix, s)
	if err != nil {
		return PublicKey{}, fmt.Errorf("%w: a public key: %w", ErrMalformed, err)
	}
	return NewPublicKey(b)
}

// IsZero says whether it is no key.
func (p PublicKey) IsZero() bool { return p == PublicKey{} }

// String is the key's text.
func (p PublicKey) String() string { return armor(publicPrefix, p[:]) }

// MarshalText is String.
func (p PublicKey) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePublicKey.
func (p *PublicKey) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePublicKey(string(text))
	return err
}

// Ed25519 is the key as the standard library has it.
func (p PublicKey) Ed25519() ed25519.PublicKey { return p[:] }

// Verify says whether s is the key's signature over what a transcript hashes to.
func (p PublicKey) Verify(hash [sha256.Size]byte, s Signature) bool {
	return ed25519.Verify(p[:], hash[:], s[:])
}

// Signature is an Ed25519 signature, over the SHA-256 of a protocol.Transcript.
// Its text is base64 in the alphabet for URLs, without padding.
type Signature [ed25519.SignatureSize]byte

// MarshalText writes the signature's text.
func (s Signature) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, s[:]), nil
}

// UnmarshalText reads it.
func (s *Signature) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(text))
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("%w: a signature is %d bytes in base64 for URLs", ErrMalformed, len(s))
	}
	copy(s[:], b)
	return nil
}

// letters is RFC 4648's base32 in small letters, which has no 0, 1, 8 and 9 to be taken for letters.
var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// armor writes 32 bytes behind a prefix and before a checksum of both.
func armor(prefix string, b []byte) string {
	sum := checksum(prefix, b)
	return prefix + letters.EncodeToString(append(b[:len(b):len(b)], sum...))
}

// unarmor reads what armor wrote, and nothing that is only like it.
func unarmor(prefix, s string) ([]byte, error) {
	text, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return nil, fmt.Errorf("it must begin with %q", prefix)
	}
	b, err := letters.DecodeString(text)
	if err != nil || len(b) != ed25519.SeedSize+checksumSize {
		return nil, fmt.Errorf("%q and %d letters a-z and digits 2-7 are needed; something is missing or mistyped",
			prefix, letters.EncodedLen(ed25519.SeedSize+checksumSize))
	}
	b = b[:ed25519.SeedSize]
	if armor(prefix, b) != s {
		return nil, fmt.Errorf("the checksum is wrong: a letter or digit behind %q is mistyped", prefix)
	}
	return b, nil
}

func checksum(prefix string, b []byte) []byte {
	h := sha256.Sum256(append([]byte(prefix), b...))
	return h[:checksumSize]
}

// PrivateKey is an Ed25519 private key that cannot be printed by accident: every verb of fmt, JSON, YAML, slog and zerolog give the public
// half instead. Only key files and invitations contain it as text. The zero PrivateKey is no key.
type PrivateKey struct {
	// A function: where a PrivateKey is an unexported field, fmt does not call its
	// methods and looks inside, at what pointers point to as well.
	reveal func() ed25519.PrivateKey
}

// GenerateKey draws a key from a source, which is entropy.System() in all but tests.
func GenerateKey(src entropy.Source) (PrivateKey, error) {
	var seed [ed25519.SeedSize]byte
	if _, err := io.ReadFull(src.Stream("admission/key", 0), seed[:]); err != nil {
		return PrivateKey{}, fmt.Errorf("admission: drawing a key: %w", err)
	}
	return newPrivateKey(seed[:]), nil
}

func newPrivateKey(seed []byte) PrivateKey {
	key := ed25519.NewKeyFromSeed(seed)
	return PrivateKey{func() ed25519.PrivateKey { return key }}
}

// IsZero says whether it is no key.
func (k PrivateKey) IsZero() bool { return k.reveal == nil }

// Public is the public half; the zero PublicKey for no key.
func (k PrivateKey) Public() PublicKey {
	if k.IsZero() {
		return PublicKey{}
	}
	return PublicKey(k.reveal()[ed25519.SeedSize:])
}

// Ed25519 is the secret itself, as the transport and the secure sum need it: nil for no
// key. It prints like any slice of bytes, so pass it on and never keep it.
func (k PrivateKey) Ed25519() ed25519.PrivateKey {
	if k.IsZero() {
		return nil
	}
	return slices.Clone(k.reveal())
}

// Sign signs what a transcript hashes to.
func (k PrivateKey) Sign(hash [sha256.Size]byte) Signature {
	return Signature(ed25519.Sign(k.reveal(), hash[:]))
}

// String names the public half.
func (k PrivateKey) String() string {
	if k.IsZero() {
		return "[no private key]"
	}
	return "[private key of " + k.Public().String() + "]"
}

// Format writes String for every verb and flag.
func (k PrivateKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText is String, so that encoders do not print the key either.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// revealed is a private key on its way to or from a file that may hold it.
type revealed struct{ PrivateKey }

func (r revealed) MarshalText() ([]byte, error) {
	if r.IsZero() {
		return nil, fmt.Errorf("%w: no private key where one belongs", ErrMalformed)
	}
	return []byte(armor(privatePrefix, r.reveal().Seed())), nil
}

func (r *revealed) UnmarshalText(text []byte) error {
	seed, err := unarmor(privatePrefix, string(text))
	if err != nil {
		return fmt.Errorf("%w: a private key: %w", ErrMalformed, err)
	}
	r.PrivateKey = newPrivateKey(seed)
	return nil
}
