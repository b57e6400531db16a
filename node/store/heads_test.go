package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
)

// A disk has room for a part of a line, and a moment later for whole lines. The process is killed before Check writes the
// file anew. The next process reads the heads of the whole lines.
func TestHeadsBehindAPartOfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heads.txt")
	h, err := OpenHeads(path)
	if err != nil {
		t.Fatal(err)
	}
	key, err := admission.GenerateKey(simulated.New(1, "client"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLedger(NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	head := l.Sign(key)
	if _, err = h.file.WriteString("0123456789"); err != nil { // as a write that was cut short leaves it
		t.Fatal(err)
	}
	h.failed = errors.New("no space left on device")
	if err = h.Keep(key.Public(), head); err != nil {
		t.Fatal(err)
	}
	if h, err = OpenHeads(path); err != nil {
		t.Fatalf("the next process: %v", err)
	}
	if got, ok := h.Of(key.Public()); !ok || got != head {
		t.Errorf("the head is %v, %v", got, ok)
	}
	if err = h.Close(); err != nil {
		t.Fatal(err)
	}
}
