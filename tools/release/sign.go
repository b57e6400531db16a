package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aead.dev/minisign"
)

// signer is a secret key, with its public half as text.
type signer struct {
	secret minisign.PrivateKey
	public string
}

// readKey reads the file of a secret key, which may have a password.
func readKey(path string) (*signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var s signer
	if minisign.IsEncrypted(text) {
		s.secret, err = minisign.DecryptKey(os.Getenv("MINISIGN_PASSWORD"), text)
	} else {
		err = s.secret.UnmarshalText(text)
	}
	if err != nil {
		return nil, fmt.Errorf("-key %s: %w; the variable MINISIGN_PASSWORD has its password", path, err)
	}
	public, ok := s.secret.Public().(minisign.PublicKey)
	if !ok {
		return nil, fmt.Errorf("-key %s has no public half", path)
	}
	s.public = lastLine(public.String())
	return &s, nil
}

// lastLine returns the line of a key that is the key: a comment may stand before it.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// sign writes the list of digests and its signature. The list also has the commands in the archives, so that an installed
// command can be checked.
func (r *release) sign() error {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		fmt.Fprintf(&list, "%s  %s\n", r.sums[name], name)
	}
	what := fmt.Sprintf("fedsim %s, revision %s", r.version, r.revision)
	if r.modified {
		what += ", modified"
	}
	signature := minisign.SignWithComments(r.key.secret, []byte(list.String()), what, "signature of SHA256SUMS by the key "+r.key.public)
	for name, b := range map[string][]byte{"SHA256SUMS": []byte(list.String()), "SHA256SUMS.minisig": signature} {
		if err := os.WriteFile(filepath.Join(r.to, name), b, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s\n%d files, signed by %s\n", what, len(r.sums), r.key.public)
	return nil
}
