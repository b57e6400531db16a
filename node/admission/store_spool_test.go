package admission_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/node/store"
)

// spooled returns a spool of four pieces of three bytes, with three pieces put, and the path of its file.
func spooled(t *testing.T) (*store.Spool, string) {
	t.Helper()
	dir := t.TempDir()
	all, err := store.OpenSpools(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := all.Open(4, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Put(1, []byte("abcdefghi")); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return s, filepath.Join(dir, files[0].Name())
}

// Pieces come back as they were put, and a piece that was not put is an error. A number is used once.
func TestSpool(t *testing.T) {
	s, path := spooled(t)
	for number, want := range map[int64]string{1: "abc", 2: "def", 3: "ghi"} {
		if got, err := s.Get(number); err != nil || string(got) != want {
			t.Errorf("piece %d is %q, %v; want %q", number, got, err, want)
		}
	}
	for _, number := range []int64{-1, 0, 4} {
		if _, err := s.Get(number); err == nil {
			t.Errorf("there is a piece %d", number)
		}
	}
	for _, c := range []struct {
		first  int64
		pieces string
	}{{-1, "abc"}, {4, "abc"}, {3, "abcdef"}, {0, "abcd"}, {1, "abc"}, {0, "abcdef"}} {
		if s.Put(c.first, []byte(c.pieces)) == nil {
			t.Errorf("%q is put at %d", c.pieces, c.first)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte("abc")) {
		t.Errorf("the file holds pieces in the clear, or %v", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	s.Drop()
	s.Drop()
	if _, err = s.Get(1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if err = s.Put(0, []byte("abc")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err = os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file after the end: %v", err)
	}
}

// A file that was damaged, cut short, or whose pieces were exchanged gives errors that name it, and no piece.
func TestSpoiledSpool(t *testing.T) {
	const sealed = 3 + 16
	_, path := spooled(t)
	older, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(b []byte) []byte{
		"a bit":            func(b []byte) []byte { b[sealed] ^= 1; return b },
		"a bit of the tag": func(b []byte) []byte { b[2*sealed-1] ^= 0x80; return b },
		"exchanged": func(b []byte) []byte {
			return append(b[:sealed], append(b[2*sealed:3*sealed:3*sealed], b[2*sealed:]...)...)
		},
		"zeros":     func(b []byte) []byte { return make([]byte, len(b)) },
		"cut short": func(b []byte) []byte { return b[:2*sealed-1] },
		"empty":     func([]byte) []byte { return nil },
		"older":     func([]byte) []byte { return older }, // of another round, with the same pieces
	} {
		s, path := spooled(t)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, spoil(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get(1); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		s.Drop()
	}
}

// A start removes the spools that a killed process left, and nothing else.
func TestSpoolsLeftBehind(t *testing.T) {
	_, path := spooled(t)
	dir := filepath.Dir(path)
	other := filepath.Join(dir, "registry")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenSpools(dir); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "registry" {
		t.Errorf("the folder holds %v, %v", files, err)
	}
}

// BenchmarkSpool reads one piece of 80 bytes. A delivery has one from each neighbour.
func BenchmarkSpool(b *testing.B) {
	const pieces, each = 1 << 20, 128
	all, err := store.OpenSpools(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	s, err := all.Open(pieces, 80)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Drop()
	for first := int64(0); first < pieces; first += each {
		if err = s.Put(first, make([]byte, each*80)); err != nil {
			b.Fatal(err)
		}
	}
	at := int64(0)
	for b.Loop() {
		if _, err = s.Get(at); err != nil {
			b.Fatal(err)
		}
		at = (at + 7919) % pieces
	}
}
