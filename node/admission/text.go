package admission

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/atomicfile"
)

// The kinds of documents. A text is a JSON object of one key, the kind, and the document is its value.
const (
	kindKey         = "fedsim-key-v1"
	kindFederation  = "fedsim-federation-v1"
	kindInvitation  = "fedsim-invitation-v1"
	kindMembership  = "fedsim-membership-v1"
	kindEnrolment   = "fedsim-enrolment-v1"
	kindRevocations = "fedsim-revocations-v1"
	kindList        = "fedsim-enrolment-list-v1"
)

// Encode writes the federation as ParseFederation reads it.
func (f *Federation) Encode() ([]byte, error) { return encode(kindFederation, f) }

// ParseFederation reads a federation, signed by the operator that it names.
func ParseFederation(text []byte) (*Federation, error) {
	return parse(kindFederation, text, func(f *Federation) error { return f.Verify(f.Operator) })
}

type invitationText struct {
	Federation Federation `json:"federation"`
	Ticket     Ticket     `json:"ticket"`
	Key        revealed   `json:"key"`
	Contact    Contact    `json:"contact"`
}

// Encode writes the invitation, its secret included, as ParseInvitation reads it.
func (i *Invitation) Encode() ([]byte, error) {
	return encode(kindInvitation, &invitationText{i.Federation, i.Ticket, revealed{i.Key}, i.Contact})
}

// ParseInvitation reads an invitation and verifies that the operator named in it made it. That this is the right operator follows only from
// the channel over which the invitation came.
func ParseInvitation(text []byte) (*Invitation, error) {
	t, err := parse(kindInvitation, text, func(*invitationText) error { return nil })
	if err != nil {
		return nil, err
	}
	i := &Invitation{t.Federation, t.Ticket, t.Key.PrivateKey, t.Contact}
	return sound(i, i.check())
}

// Encode writes the membership as ParseMembership reads it.
func (m *Membership) Encode() ([]byte, error) { return encode(kindMembership, m) }

// ParseMembership reads a membership and verifies it.
func ParseMembership(text []byte) (*Membership, error) {
	return parse(kindMembership, text, (*Membership).check)
}

// Encode writes the enrolment as ParseEnrolment reads it, in at most MaxEnrolmentSize bytes.
func (e *Enrolment) Encode() ([]byte, error) { return encode(kindEnrolment, e) }

// ParseEnrolment reads an enrolment. It must be verified before it is used.
func ParseEnrolment(text []byte) (*Enrolment, error) {
	return parse(kindEnrolment, text, func(*Enrolment) error { return nil })
}

// Encode writes the revocations as ParseRevocations reads them.
func (r *Revocations) Encode() ([]byte, error) { return encode(kindRevocations, r) }

// ParseRevocations reads revocations. They must be verified before they are used.
func ParseRevocations(text []byte) (*Revocations, error) {
	return parse(kindRevocations, text, func(*Revocations) error { return nil })
}

// Encode writes the list as ParseList reads it, in at most MaxListSize bytes.
func (l *List) Encode() ([]byte, error) { return encode(kindList, l) }

// ParseList reads a list. It must be verified before it is used.
func ParseList(text []byte) (*List, error) {
	return parse(kindList, text, func(l *List) error {
		if slices.Contains(l.Enrolments, nil) {
			return fmt.Errorf("%w: null in place of an enrolment", ErrMalformed)
		}
		return nil
	})
}

// parse reads a document of a kind, and returns it if a check finds nothing wrong with it.
func parse[T any](kind string, text []byte, check func(*T) error) (*T, error) {
	v := new(T)
	if err := decode(kind, text, v); err != nil {
		return nil, err
	}
	return sound(v, check(v))
}

// sound gives a value or what is wrong with it, never both.
func sound[T any](v *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func encode(kind string, doc any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // names and addresses stay as they are
	if err := e.Encode(map[string]any{kind: doc}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode reads the canonical text of a document: except for white space, it refuses every text that encode would write in another way. So
// two readers cannot understand a text differently. JSON alone does not promise that (a key twice, keys in other letter case).
func decode(kind string, text []byte, doc any) error {
	found, body, err := open(text)
	if err != nil {
		return err
	}
	if found != kind {
		return fmt.Errorf("%w: this is %.40q, and a %s is needed", ErrMalformed, found, kind)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err = d.Decode(doc); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, kind, err)
	}
	var compact bytes.Buffer
	if err = json.Compact(&compact, text); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	want, err := encode(kind, doc)
	if err != nil {
		return err
	}
	if !bytes.Equal(compact.Bytes(), want) {
		return fmt.Errorf("%w: %s: a key is missing, there twice, out of its order or in other letters, or a value is not in its one spelling", ErrMalformed, kind)
	}
	return nil
}

// open takes a document out of the outermost object, and says what kind it is.
func open(text []byte) (kind string, body json.RawMessage, err error) {
	var outer map[string]json.RawMessage
	if err := json.Unmarshal(text, &outer); err != nil {
		if at, ok := errors.AsType[*json.SyntaxError](err); ok {
			read := text[:min(int(at.Offset), len(text))]
			err = fmt.Errorf("line %d: %w", 1+bytes.Count(read, []byte("\n")), err)
		}
		return "", nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for kind, body = range outer {
		if len(outer) == 1 {
			return kind, body, nil
		}
	}
	return "", nil, fmt.Errorf("%w: an object of one key is needed, the kind of the document; there are %d keys", ErrMalformed, len(outer))
}

// maxFile limits the size of a file, in bytes; a list of MaxClients fits.
const maxFile = 256 << 20

// ReadFile reads a document: parse is one of the Parse functions of this package.
func ReadFile[T any](path string, parse func([]byte) (T, error)) (T, error) {
	return readFile(path, false, parse)
}

func readFile[T any](path string, secret bool, parse func([]byte) (T, error)) (T, error) {
	var none T
	text, err := readAll(path, secret)
	if err != nil {
		return none, err
	}
	doc, err := parse(text)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

type document interface{ Encode() ([]byte, error) }

func encodeAll(docs []document) (texts [][]byte, err error) {
	for _, d := range docs {
		text, err := d.Encode()
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// WriteFile writes a document, with line breaks, in place of what is
// there. It is not for invitations, which are secret: see WriteInvitation.
func WriteFile(path string, doc document) error {
	b, err := indented(doc)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, b, 0o644)
}

// keyText is a private key with the public half beside it.
type keyText struct {
	Public  PublicKey `json:"public"`
	Private revealed  `json:"private"`
}

// Encode writes the key, which is secret.
func (t *keyText) Encode() ([]byte, error) { return encode(kindKey, t) }

// WriteKey writes a private key to a new file that only its owner can read. It never overwrites: a lost key is a lost place.
func WriteKey(path string, k PrivateKey) error {
	return writeSecret(path, &keyText{k.Public(), revealed{k}})
}

// ReadKey reads what WriteKey wrote. It refuses a file that others can read (ErrExposed).
func ReadKey(path string) (PrivateKey, error) {
	return readFile(path, true, func(text []byte) (k PrivateKey, err error) {
		var t keyText
		if err = decode(kindKey, text, &t); err != nil {
			return k, err
		}
		if k = t.Private.PrivateKey; k.Public() != t.Public {
			err = fmt.Errorf("%w: the private key belongs to %s, not to %s as the file says", ErrMalformed, k.Public(), t.Public)
		}
		return k, err
	})
}

// WriteInvitation writes an invitation to a new file that only its owner can read. It does not overwrite.
func WriteInvitation(path string, i *Invitation) error { return writeSecret(path, i) }

// ReadInvitation reads an invitation. It refuses a file that others can read (ErrExposed).
func ReadInvitation(path string) (*Invitation, error) { return readFile(path, true, ParseInvitation) }

func writeSecret(path string, doc document) error {
	b, err := indented(doc)
	if err != nil {
		return err
	}
	if err = atomicfile.Create(path, b, 0o600); errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w; it is not overwritten: choose another name, or move it away if you are sure", err)
	}
	return err
}

func indented(doc document) ([]byte, error) {
	text, err := doc.Encode()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err = json.Indent(&b, text, "", "  "); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// readAll reads a plain file, a secret one only if the group and others have no access to it, or as root hands it over (handedOver).
func readAll(path string, secret bool) ([]byte, error) {
	// Asked before it is opened, since opening a pipe would wait for a writer.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a plain file", path, ErrMalformed)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); secret && mode&0o077 != 0 && !handedOver(info) {
		return nil, fmt.Errorf("%s: %w: its mode is %#o; run chmod 600 %s, and think about who may have read it. In a container, mount it as root's file with mode 0440 and a group of this process (fsGroup)", path, ErrExposed, mode, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", path, ErrMalformed, maxFile)
	}
	return b, err
}

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
	sum := sha256.Sum256(append([]byte(prefix), b...))
	return prefix + letters.EncodeToString(append(b[:len(b):len(b)], sum[:checksumSize]...))
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
