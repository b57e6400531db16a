package admission_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/node/admission"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestSecretFiles(t *testing.T) {
	w := newWorld(t, 3)
	dir := t.TempDir()
	k, i := key(t, "somebody"), w.invite(client(1), 1)
	for _, c := range []struct {
		path  string
		write func(string) error
		read  func(string) (admission.PublicKey, error)
		want  admission.PublicKey
	}{
		{
			filepath.Join(dir, "key.json"),
			func(path string) error { return admission.WriteKey(path, k) },
			func(path string) (admission.PublicKey, error) {
				got, err := admission.ReadKey(path)
				return got.Public(), err
			},
			k.Public(),
		},
		{
			filepath.Join(dir, "invitation.json"),
			func(path string) error { return admission.WriteInvitation(path, i) },
			func(path string) (admission.PublicKey, error) {
				got, err := admission.ReadInvitation(path)
				if err != nil {
					return admission.PublicKey{}, err
				}
				return got.Key.Public(), nil
			},
			i.Key.Public(),
		},
	} {
		if err := c.write(c.path); err != nil {
			t.Fatal(err)
		}
		if got := mode(t, c.path); got != 0o600 {
			t.Errorf("%s has mode %v, want 0600", c.path, got)
		}
		if got, err := c.read(c.path); err != nil || got != c.want {
			t.Errorf("%s holds the key of %v (%v), want %v", c.path, got, err, c.want)
		}
		before, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.write(c.path); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "not overwritten") {
			t.Errorf("written over %s: %v", c.path, err)
		}
		if after, err := os.ReadFile(c.path); err != nil || string(after) != string(before) {
			t.Errorf("%s was overwritten (%v)", c.path, err)
		}
		for _, m := range []fs.FileMode{0o640, 0o620, 0o610, 0o604, 0o602, 0o601} {
			if err := os.Chmod(c.path, m); err != nil {
				t.Fatal(err)
			}
			_, err := c.read(c.path)
			if !errors.Is(err, admission.ErrExposed) || !strings.Contains(err.Error(), "chmod 600 "+c.path) {
				t.Errorf("%s of mode %v: %v", c.path, m, err)
			}
		}
		if err := os.Chmod(c.path, 0o400); err != nil {
			t.Fatal(err)
		}
		if _, err := c.read(c.path); err != nil {
			t.Errorf("%s of mode 0400: %v", c.path, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v (%v), want two files", entries, err)
	}
}

// Errors about a file name it, and never quote a secret in it.
func TestBadFiles(t *testing.T) {
	good := string(golden(t, "key.json"))
	_, secret, _ := strings.Cut(good, "fedsim-private-")
	secret = secret[:50]
	other := key(t, "other").Public().String()
	own, _, _ := strings.Cut(good[strings.Index(good, "fedsim-public-"):], `"`)
	path := filepath.Join(t.TempDir(), "key.json")
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "unexpected end"},
		{"without a key", `{"fedsim-key-v1":{}}`, "no private key"},
		{"torn", good[:150], "unexpected end"},
		{"public half of another", strings.Replace(good, own, other, 1), "not to " + other},
		{"mistyped", strings.Replace(good, secret, "z"+secret[1:], 1), "checksum is wrong"},
		{"too short", strings.Replace(good, secret, secret[1:], 1), "58 letters"},
		{"public key as private", strings.Replace(good, "fedsim-private-", "fedsim-public-", 1), `must begin with "fedsim-private-"`},
		{"a number", strings.Replace(good, `"`+own+`"`, "7", 1), "cannot unmarshal number"},
		{"a federation", string(golden(t, "federation.json")), `this is "fedsim-federation-v1"`},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := admission.ReadKey(path)
		if !errors.Is(err, admission.ErrMalformed) || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret[10:20]) {
			t.Errorf("%s: the secret is in the error: %v", c.name, err)
		}
	}
	dir := t.TempDir()
	if _, err := admission.ReadKey(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := admission.ReadKey(dir); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("a folder: %v", err)
	}
	if err := admission.WriteKey(filepath.Join(dir, "zero"), admission.PrivateKey{}); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("no key written: %v", err)
	}
	if err := admission.WriteInvitation(filepath.Join(dir, "zero"), new(admission.Invitation)); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("no invitation written: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "zero")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was refused left a file (%v)", err)
	}
}

// The golden documents are laid out as files are, so they come out byte for byte.
func TestFilesOfDocuments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.json")
	l, err := admission.ReadFile(filepath.Join("testdata", "list.json"), admission.ParseList)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time over the first
		if err = admission.WriteFile(path, l); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != string(golden(t, "list.json")) {
		t.Errorf("the list is written as\n%s (%v)", got, err)
	}
	if m := mode(t, path); m != 0o644 {
		t.Errorf("a public file has mode %v, want 0644", m)
	}
	_, err = admission.ReadFile(path, admission.ParseFederation)
	if !errors.Is(err, admission.ErrMalformed) || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("a list read as a federation: %v", err)
	}
	if err := admission.WriteFile(path, torn{}); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("a torn text written: %v", err)
	}
}

type torn struct{}

func (torn) Encode() ([]byte, error) { return []byte("{"), nil }

// A key file that can be read equals the file that would be written.
func FuzzKeyFile(f *testing.F) {
	f.Add(golden(f, "key.json"))
	f.Add(golden(f, "federation.json"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "key.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := admission.ReadKey(path)
		if err != nil {
			return
		}
		again := filepath.Join(dir, "again.json")
		if err = admission.WriteKey(again, k); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(again)
		if err != nil || string(compact(t, b)) != string(compact(t, text)) {
			t.Errorf("%s is written again as %s (%v)", text, b, err)
		}
	})
}
