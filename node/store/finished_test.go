package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// The finished sessions are known after a restart, in their order.
func TestFinishedIsKnownAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "finished.json")
	x, y, z := protocol.SessionID{1}, protocol.SessionID{2}, protocol.SessionID{3}
	f, err := store.OpenFinished(path)
	if err != nil || f.Has(x) {
		t.Fatalf("before the first session: %v, and it has one: %v", err, f.Has(x))
	}
	for _, s := range []protocol.SessionID{x, y, x} { // the last is in already
		if err = f.Add(s, nil); err != nil {
			t.Fatal(err)
		}
	}
	f, err = store.OpenFinished(path)
	if err != nil || !f.Has(x) || !f.Has(y) || f.Has(z) {
		t.Errorf("after a restart: %v; it has the first, second and third: %v, %v, %v", err, f.Has(x), f.Has(y), f.Has(z))
	}
	text, err := os.ReadFile(path)
	const want = `{"format":"fedsim-finished-v1","sessions":["01000000000000000000000000000000","02000000000000000000000000000000"]}` + "\n"
	if err != nil || string(text) != want {
		t.Errorf("the file is %q, %v; want %q", text, err, want)
	}
}

// The signed end of the last session is known after a restart. A file of an earlier version has none.
func TestFinishedKeepsTheSignedEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "finished.json")
	f, err := store.OpenFinished(path)
	if err != nil || f.End() != nil {
		t.Fatalf("%v, %v", f.End(), err)
	}
	for id := range byte(2) {
		if err = f.Add(protocol.SessionID{id}, &protocol.End{Session: protocol.SessionID{id}, Model: []byte{id}, Signature: []byte{7, id}}); err != nil {
			t.Fatal(err)
		}
	}
	if f, err = store.OpenFinished(path); err != nil || f.End() == nil || f.End().Session != (protocol.SessionID{1}) || f.End().Signature[1] != 1 {
		t.Errorf("%+v, %v", f.End(), err)
	}
}

// A file that is not what was written is refused, with what to do.
func TestDamagedFinishedIsRefused(t *testing.T) {
	for _, text := range []string{"", "{", `{"format":"fedsim-finished-v2","sessions":[]}`, `{"format":"fedsim-finished-v1","sessions":["01"]}`,
		`{"format":"fedsim-finished-v1","sessions":["zz000000000000000000000000000000"]}`} {
		path := filepath.Join(t.TempDir(), "finished.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.OpenFinished(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A mark that cannot be kept is not there.
func TestFinishedThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	f, err := store.OpenFinished(filepath.Join(dir, "finished.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err = f.Add(protocol.SessionID{1}, nil); err == nil || f.Has(protocol.SessionID{1}) {
		t.Errorf("in a folder that does not exist: %v, and it is there: %v", err, f.Has(protocol.SessionID{1}))
	}
}
