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

// maxFile limits the size of a file, in bytes; a list of MaxClients fits.
const maxFile = 256 << 20

// ReadFile reads a document: parse is one of the Parse functions of this package.
func ReadFile[T any](path string, parse func([]byte) (T, error)) (T, error) {
	var none T
	text, err := readAll(path, false)
	if err != nil {
		return none, err
	}
	doc, err := parse(text)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// WriteFile writes what Encode returned, with line breaks, in place of what is
// there. It is not for invitations, which are secret: see WriteInvitation.
func WriteFile(path string, text []byte) error {
	b, err := indent(text)
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

// WriteKey writes a private key to a new file that only its owner can read. It never
// overwrites: a lost key is a lost place.
func WriteKey(path string, k PrivateKey) error {
	text, err := encode(kindKey, &keyText{k.Public(), revealed{k}})
	if err != nil {
		return err
	}
	return writeSecret(path, text)
}

// ReadKey reads what WriteKey wrote. It refuses a file that others can read (ErrExposed).
func ReadKey(path string) (PrivateKey, error) {
	text, err := readAll(path, true)
	if err != nil {
		return PrivateKey{}, err
	}
	var t keyText
	if err := decode(kindKey, text, &t); err != nil {
		return PrivateKey{}, fmt.Errorf("%s: %w", path, err)
	}
	if k := t.Private.PrivateKey; k.Public() != t.Public {
		return PrivateKey{}, fmt.Errorf("%s: %w: the private key belongs to %s, not to %s as the file says", path, ErrMalformed, k.Public(), t.Public)
	}
	return t.Private.PrivateKey, nil
}

// WriteInvitation writes an invitation to a new file that only its owner can read. It
// does not overwrite.
func WriteInvitation(path string, i *Invitation) error {
	text, err := i.Encode()
	if err != nil {
		return err
	}
	return writeSecret(path, text)
}

// ReadInvitation reads an invitation. It refuses a file that others can read
// (ErrExposed).
func ReadInvitation(path string) (*Invitation, error) {
	text, err := readAll(path, true)
	if err != nil {
		return nil, err
	}
	i, err := ParseInvitation(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return i, nil
}

func writeSecret(path string, text []byte) error {
	b, err := indent(text)
	if err != nil {
		return err
	}
	if err := atomicfile.Create(path, b, 0o600); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; it is not overwritten: choose another name, or move it away if you are sure", err)
	} else if err != nil {
		return err
	}
	return nil
}

func indent(text []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// readAll reads a plain file, a secret one only if the group and others have no
// access to it, or as root hands it over (handedOver).
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
