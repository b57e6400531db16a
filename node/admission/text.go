package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

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
	f := new(Federation)
	if err := decode(kindFederation, text, f); err != nil {
		return nil, err
	}
	return sound(f, f.Verify(f.Operator))
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
	t := new(invitationText)
	if err := decode(kindInvitation, text, t); err != nil {
		return nil, err
	}
	i := &Invitation{t.Federation, t.Ticket, t.Key.PrivateKey, t.Contact}
	return sound(i, i.check())
}

// Encode writes the membership as ParseMembership reads it.
func (m *Membership) Encode() ([]byte, error) { return encode(kindMembership, m) }

// ParseMembership reads a membership and verifies it.
func ParseMembership(text []byte) (*Membership, error) {
	m := new(Membership)
	if err := decode(kindMembership, text, m); err != nil {
		return nil, err
	}
	return sound(m, m.check())
}

// Encode writes the enrolment as ParseEnrolment reads it, in at most MaxEnrolmentSize bytes.
func (e *Enrolment) Encode() ([]byte, error) { return encode(kindEnrolment, e) }

// ParseEnrolment reads an enrolment. It must be verified before it is used.
func ParseEnrolment(text []byte) (*Enrolment, error) {
	e := new(Enrolment)
	return sound(e, decode(kindEnrolment, text, e))
}

// Encode writes the revocations as ParseRevocations reads them.
func (r *Revocations) Encode() ([]byte, error) { return encode(kindRevocations, r) }

// ParseRevocations reads revocations. They must be verified before they are used.
func ParseRevocations(text []byte) (*Revocations, error) {
	r := new(Revocations)
	return sound(r, decode(kindRevocations, text, r))
}

// Encode writes the list as ParseList reads it, in at most MaxListSize bytes.
func (l *List) Encode() ([]byte, error) { return encode(kindList, l) }

// ParseList reads a list. It must be verified before it is used.
func ParseList(text []byte) (*List, error) {
	l := new(List)
	return sound(l, decode(kindList, text, l))
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
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", path, ErrMalformed, maxFile)
	}
	return b, nil
}
