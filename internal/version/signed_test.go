package version

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// FIPS 180-4, example of the message "abc".
const ofABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

// released writes a file, a list of digests and its signature to a folder, and returns the public key.
func released(t *testing.T, dir, list string) (public string) {
	t.Helper()
	pub, key, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"abc.tar.gz": "abc", "other": "abd", "SHA256SUMS": list,
		"SHA256SUMS.minisig": string(minisign.SignWithComments(key, []byte(list), "fedsim v0.9.0", "")),
	} {
		if err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := pub.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	list := ofABC + "  abc.tar.gz\n" + strings.Repeat("0", 64) + "  other\n"
	key := released(t, dir, list)
	foreign := released(t, t.TempDir(), list)
	got, err := Check(in("abc.tar.gz"), in("SHA256SUMS"), key)
	if err != nil || !strings.Contains(got, "abc.tar.gz of fedsim v0.9.0, signed by the key ") {
		t.Errorf("a file of the release: %q, %v", got, err)
	}
	if err = os.Rename(in("abc.tar.gz"), in("renamed")); err != nil {
		t.Fatal(err)
	}
	if _, err = Check(in("renamed"), in("SHA256SUMS"), key); err != nil {
		t.Errorf("a file with another name: %v", err)
	}
	if _, err = Check(in("other"), in("SHA256SUMS"), key); !errors.Is(err, ErrNotSigned) || !strings.Contains(err.Error(), "has 0000") {
		t.Errorf("a changed file: %v", err)
	}
	if _, err = Check(in("SHA256SUMS.minisig"), in("SHA256SUMS"), key); !errors.Is(err, ErrNotSigned) {
		t.Errorf("a file beside: %v", err)
	}
	if _, err = Check(in("renamed"), in("SHA256SUMS"), foreign); !errors.Is(err, ErrNotSigned) {
		t.Errorf("the key of another: %v", err)
	}
	if err = os.WriteFile(in("SHA256SUMS"), []byte(list+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = Check(in("renamed"), in("SHA256SUMS"), key); !errors.Is(err, ErrNotSigned) {
		t.Errorf("a changed list: %v", err)
	}
	if err = os.Truncate(in("SHA256SUMS"), mostSums+1); err != nil {
		t.Fatal(err)
	}
	if _, err = Check(in("renamed"), in("SHA256SUMS"), key); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("a list without end: %v", err)
	}
	if _, err = Check(in("renamed"), in("SHA256SUMS"), "RW"); err == nil || !strings.Contains(err.Error(), "--key") {
		t.Errorf("no key: %v", err)
	}
}
