package admission_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

func clientKey(t testing.TB, name string) admission.PrivateKey {
	t.Helper()
	k, err := admission.GenerateKey(simulated.New(1, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// openedAt opens a ledger in a file that is made if it is missing.
func openedAt(t testing.TB, path string, owner admission.PublicKey) *store.Ledger {
	t.Helper()
	if err := store.CreateLedger(path, owner); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	l, err := store.OpenLedger(path, owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	l.Protect(perUser)
	return l
}

func TestHeadBytes(t *testing.T) {
	key := clientKey(t, "client")
	l := ledger(t, store.NewMemoryLog())
	persist(t, l, charged(one, 1))
	h := l.Sign(key)
	if h.Count != 1 || len(h.Bytes()) != protocol.HeadSize {
		t.Errorf("%d charges in %d bytes", h.Count, len(h.Bytes()))
	}
	got, err := store.OpenHead(h.Bytes(), key.Public())
	if err != nil || got != h {
		t.Errorf("%+v is read as %+v, %v", h, got, err)
	}
	for i := range h.Bytes() { // each byte is signed or the signature
		b := h.Bytes()
		b[i] ^= 1
		if _, failed := store.OpenHead(b, key.Public()); !errors.Is(failed, store.ErrForged) {
			t.Errorf("with byte %d changed: %v", i, failed)
		}
	}
	if _, failed := store.OpenHead(h.Bytes(), clientKey(t, "another").Public()); !errors.Is(failed, store.ErrForged) {
		t.Error("another client's head")
	}
	if _, err = store.OpenHead(h.Bytes()[1:], key.Public()); err == nil {
		t.Error("a head that is too short")
	}
}

// Two ledgers with the same charges have different heads: a head reveals the number of charges alone.
func TestHeadHidesCharges(t *testing.T) {
	key := clientKey(t, "client")
	var chains []protocol.Hash
	for range 2 {
		l := ledger(t, store.NewMemoryLog())
		persist(t, l, charged(one, 1))
		chains = append(chains, l.Sign(key).Chain)
	}
	if chains[0] == chains[1] {
		t.Error("who guesses the charges can check the guess")
	}
}

// A ledger that lacks charges records no more, also after a restart, until the newest ledger is put back.
func TestMeet(t *testing.T) {
	key := clientKey(t, "client")
	owner := key.Public()
	dir := t.TempDir()
	path, old := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "old.db")
	l := openedAt(t, path, owner)
	persist(t, l, charged(one, 1))
	first := l.Sign(key)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	copied, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(old, copied, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l = openedAt(t, path, owner)
	persist(t, l, charged(one, 2))
	second := l.Sign(key)
	for _, h := range []store.Head{{}, {Count: 9}, first, second} {
		if err := l.Meet(h.Bytes(), owner); err != nil && !errors.Is(err, store.ErrForged) {
			t.Errorf("the newest ledger meets %d: %v", h.Count, err)
		}
	}
	restored := openedAt(t, old, owner)
	if err := restored.Meet(second.Bytes(), owner); !errors.Is(err, store.ErrBehind) || !strings.Contains(err.Error(), "it has 1 charges, and the client has signed for 2") {
		t.Errorf("an old copy: %v", err)
	}
	if err := restored.Meet(first.Bytes(), owner); !errors.Is(err, store.ErrBehind) {
		t.Errorf("shown an older head after that: %v", err)
	}
	if err := restored.Persist(charged(one, 3)); !errors.Is(err, store.ErrBehind) {
		t.Errorf("it is charged: %v", err)
	}
	if err := restored.Close(); err != nil {
		t.Fatal(err)
	}
	if restored = openedAt(t, old, owner); !errors.Is(restored.Overtaken(), store.ErrBehind) {
		t.Errorf("after a restart: %v", restored.Overtaken())
	}
	if err := errors.Join(restored.Close(), l.Close(), os.Rename(path, old)); err != nil {
		t.Fatal(err)
	}
	if l = openedAt(t, old, owner); l.Overtaken() != nil {
		t.Errorf("the newest ledger, put back: %v", l.Overtaken())
	}
	persist(t, l, charged(one, 3))
}

// Two copies of a ledger that were both charged know of each other.
func TestMeetAFork(t *testing.T) {
	key := clientKey(t, "client")
	log := store.NewMemoryLog()
	l := ledger(t, log)
	persist(t, l, charged(one, 1))
	other := store.NewMemoryLog()
	if err := log.Entries(func(entry []byte) error { return other.Append(entry) }); err != nil {
		t.Fatal(err)
	}
	fork := ledger(t, other)
	persist(t, l, charged(one, 2))
	persist(t, fork, charged(one, 2)) // the same round
	persist(t, fork, charged(one, 3))
	if err := fork.Meet(signed(l, key), key.Public()); !errors.Is(err, store.ErrForked) {
		t.Errorf("the longer one meets the shorter: %v", err)
	}
	if err := l.Meet(signed(fork, key), key.Public()); !errors.Is(err, store.ErrBehind) {
		t.Errorf("the shorter one meets the longer: %v", err)
	}
}

func openedHeads(t testing.TB, path string) *store.Heads {
	t.Helper()
	h, err := store.OpenHeads(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// headsOf are the heads of a client's ledger, one after each charge.
func headsOf(t testing.TB, key admission.PrivateKey, n uint64) (out []store.Head) {
	t.Helper()
	l := ledger(t, store.NewMemoryLog())
	for i := range n {
		persist(t, l, charged(one, i+1))
		out = append(out, l.Sign(key))
	}
	return out
}

func TestHeads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heads.txt")
	a, b := clientKey(t, "a"), clientKey(t, "b")
	of, its := headsOf(t, a, 3), headsOf(t, b, 1)
	h := openedHeads(t, path)
	for _, x := range []store.Head{of[0], of[2], of[1]} { // the last comes late
		if err := h.Keep(a.Public(), x); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Keep(b.Public(), its[0]); err != nil {
		t.Fatal(err)
	}
	check := func(what string, h *store.Heads) {
		t.Helper()
		x, _ := h.Of(a.Public())
		y, ok := h.Of(b.Public())
		if x != of[2] || y != its[0] || !ok {
			t.Errorf("%s: %d and %d charges", what, x.Count, y.Count)
		}
	}
	check("kept", h)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	check("another process", openedHeads(t, path))
	there := store.NewHeads()
	if err := there.Take(h.Encode([]admission.PublicKey{a.Public(), b.Public(), clientKey(t, "c").Public()})); err != nil {
		t.Error(err)
	}
	check("at a relay", there)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(path, text[:len(text)-1], 0o600); err != nil { // a power failure
		t.Fatal(err)
	}
	h = openedHeads(t, path)
	_, first := h.Of(a.Public())
	if _, second := h.Of(b.Public()); first == second {
		t.Error("a line that is cut short is read, or takes the other along")
	}
	if err = errors.Join(h.Keep(a.Public(), of[2]), h.Keep(b.Public(), its[0])); err != nil {
		t.Fatal(err)
	}
	if err = h.Close(); err != nil {
		t.Fatal(err)
	}
	check("after a line that was cut short", openedHeads(t, path))
	text[len(text)/2] ^= 1
	if err = os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = store.OpenHeads(path); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("a changed file: %v", err)
	}
}

// Heads are on disk a moment after they were kept, also if the process is killed then.
func TestHeadsAreWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "heads.txt")
		h := openedHeads(t, path)
		key := clientKey(t, "a")
		for i, head := range headsOf(t, key, 3) {
			if err := h.Keep(key.Public(), head); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second + 1)
			if there, err := store.ReadHeads(path); err != nil || there[key.Public()] != head {
				t.Errorf("head %d: %v, %v", i, there, err)
			}
		}
	})
}

// Heads that cannot be written stay in memory, and are written once they can be. The first of them to be kept says so, and the
// first after each time that they could be written.
func TestHeadsWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "missing")
		path := filepath.Join(dir, "heads.txt")
		h := openedHeads(t, path)
		key := clientKey(t, "a")
		list := headsOf(t, key, 5)
		if err := h.Keep(key.Public(), list[0]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a place for the file: %v", err)
		}
		if err := h.Keep(key.Public(), list[1]); err != nil {
			t.Errorf("said twice: %v", err)
		}
		head := list[2]
		if err := h.Keep(key.Public(), head); err != nil {
			t.Errorf("said three times: %v", err)
		}
		if err := h.Check(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the check says %v", err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := h.Check(); err != nil {
			t.Errorf("with a place: %v", err)
		}
		if got, ok := openedHeads(t, path).Of(key.Public()); !ok || got != head {
			t.Errorf("the file has %v, want %v", got, head)
		}
		if err := h.Keep(key.Public(), list[3]); err != nil {
			t.Errorf("with a place again: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		if err := h.Keep(key.Public(), list[4]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a place once more: %v", err)
		}
	})
}

func signed(l *store.Ledger, client admission.PrivateKey) []byte {
	h := l.Sign(client)
	return h.Bytes()
}
