package admission_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// serverKey is the server's key of testdata/log.py.
func serverKey() ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	return ed25519.NewKeyFromSeed(seed)
}

// begun is the leaf of a session that begins, with the number of an entry in testdata/log.py.
func begun(number int) *protocol.Leaf {
	sum := func(text string) []byte { h := sha256.Sum256([]byte(text)); return h[:] }
	l := &protocol.Leaf{Format: protocol.LeafFormat, Session: fmt.Sprintf("%032x", number), Agreement: sum("the agreement"), Plan: sum("the description"),
		Claims: protocol.Claims{Unit: "user", Delta: 0.5}, Clients: 20, Rounds: 3, Charges: []dp.Event{}, Server: serverKey().Public().(ed25519.PublicKey)}
	h := protocol.DescriptionHash([32]byte(l.Plan))
	l.Signature = ed25519.Sign(serverKey(), h[:])
	return l
}

// ended is the leaf of the end of a session, of the usual size.
func ended(t testing.TB, number int) *protocol.Leaf {
	t.Helper()
	l, f := begun(number), &protocol.Final{Model: []byte("the model")}
	end := protocol.EndOf(protocol.SessionID{15: byte(number), 14: byte(number >> 8), 13: byte(number >> 16)}, f)
	if err := protocol.SignFinal(serverKey(), end.Session, f); err != nil {
		t.Fatal(err)
	}
	l.Model, l.Signature, l.Survivors = end.Model, f.Signature, [][2]int{{1, 20}, {2, 19}}
	l.Claims.SamplerError, l.Charges = 1.25e-19, []dp.Event{dp.Skellam(1992552.6488, 500.5, 500.25).Times(3)}
	return l
}

func openLog(t testing.TB, state string) *store.SessionLog {
	t.Helper()
	f := admission.Hash{0, 1, 2, 3, 4, 5, 6, 7}
	l, err := store.OpenSessionLog(state, f, clientKey(t, "aggregator"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func logged(t testing.TB, l *store.SessionLog, leaves ...*protocol.Leaf) {
	t.Helper()
	for _, leaf := range leaves {
		if err := l.Add(leaf); err != nil {
			t.Fatal(err)
		}
	}
}

// testdata/log.py writes the files: it shares no code with this program, and follows C2SP's documents.
func TestLogBytes(t *testing.T) {
	text, err := os.ReadFile("testdata/log.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		First, Checkpoint string
		SHA256            map[string]string
	}
	if err = json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	memory := openLog(t, "")
	for i := range 300 {
		logged(t, memory, begun(i))
	}
	l := openLog(t, state)
	for i := range 300 {
		if i%100 == 99 {
			l = openLog(t, state) // as after a restart
		}
		logged(t, l, begun(i), begun(i)) // the second is there already
	}
	dir := filepath.Join(state, store.SessionFolder)
	got := make(map[string]string)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		if b, failed := os.ReadFile(path); failed == nil {
			if of, part, _ := strings.Cut(name, ".p/"); part == "" || golden.SHA256[name] != "" || golden.SHA256[of] != "" { // parts of smaller logs are left
				got[name] = fmt.Sprintf("%x", sha256.Sum256(b))
			}
		}
		return err
	})
	if err != nil || len(got) != len(golden.SHA256) {
		t.Errorf("%d files, want %d; %v", len(got), len(golden.SHA256), err)
	}
	for name, sum := range golden.SHA256 {
		if got[name] != sum {
			t.Errorf("%s has the digest %s", name, got[name])
		}
	}
	s, err := store.ReadSessions(store.ReadFolder(dir), clientKey(t, "aggregator").Public())
	if err != nil || string(s.Entries[0]) != golden.First || size(l) != 300 || size(memory) != 300 {
		t.Errorf("%v", err)
	}
	if r, err := memory.Receipt(); err != nil || r.Checkpoint != golden.Checkpoint {
		t.Errorf("a log in memory: %v", err)
	}
}

// A log that was changed after it was written is refused, by the aggregator too.
func TestDamagedLogOfSessions(t *testing.T) {
	key := clientKey(t, "aggregator").Public()
	for name, damage := range map[string]func(dir string) error{
		"another entry": func(dir string) error {
			return change(filepath.Join(dir, "tile/entries/000.p/3"), `"rounds":3`, `"rounds":2`)
		},
		"a tile of others": func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, "tile/0/000.p/3"))
			if err == nil {
				b[0] ^= 1
				err = os.WriteFile(filepath.Join(dir, "tile/0/000.p/3"), b, 0o600)
			}
			return err
		},
		"no tile":      func(dir string) error { return os.Remove(filepath.Join(dir, "tile/0/000.p/3")) },
		"no entries":   func(dir string) error { return os.Remove(filepath.Join(dir, "tile/entries/000.p/3")) },
		"an entry cut": func(dir string) error { return os.Truncate(filepath.Join(dir, "tile/entries/000.p/3"), 900) },
		"more bytes":   func(dir string) error { return change(filepath.Join(dir, "tile/entries/000.p/3"), `"}`, `"}  `) },
		"a checkpoint of more": func(dir string) error {
			return change(filepath.Join(dir, "checkpoint"), "\n3\n", "\n4\n")
		},
		"an empty checkpoint": func(dir string) error { return os.WriteFile(filepath.Join(dir, "checkpoint"), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			logged(t, openLog(t, state), begun(1), begun(2), begun(3))
			dir := filepath.Join(state, store.SessionFolder)
			if _, err := store.ReadSessions(store.ReadFolder(dir), key); err != nil {
				t.Fatal(err)
			}
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := store.ReadSessions(store.ReadFolder(dir), key); !errors.Is(err, store.ErrLog) {
				t.Errorf("read: %v", err)
			}
			if _, err := store.OpenSessionLog(state, admission.Hash{}, clientKey(t, "aggregator")); !errors.Is(err, store.ErrLog) || !strings.Contains(err.Error(), "losses.md") {
				t.Errorf("opened: %v", err)
			}
		})
	}
	state := t.TempDir()
	logged(t, openLog(t, state), begun(1))
	if _, err := store.ReadSessions(store.ReadFolder(filepath.Join(state, store.SessionFolder)), clientKey(t, "another").Public()); !errors.Is(err, store.ErrLog) {
		t.Errorf("another key: %v", err)
	}
}

func change(path, old, replacement string) error {
	b, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(b), old) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(b), old, replacement, 1)), 0o600)
	}
	return err
}

// A leaf that could not be written is not in the log, and the next one takes its place.
func TestLogThatCannotBeWritten(t *testing.T) {
	state := t.TempDir()
	l := openLog(t, state)
	logged(t, l, begun(1))
	blocked := filepath.Join(state, store.SessionFolder, "checkpoint.tmp")
	if err := os.MkdirAll(filepath.Join(blocked, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Add(begun(2)); err == nil || size(l) != 1 {
		t.Errorf("%v, and the log has %d entries", err, size(l))
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	logged(t, l, begun(3))
	if again := openLog(t, state); size(again) != 2 {
		t.Errorf("%d entries", size(again))
	}
}

// receiptOf is the receipt of a log's last leaf as it travels.
func receiptOf(t testing.TB, l *store.SessionLog, sizes ...int64) *store.Receipt {
	t.Helper()
	r, err := l.Receipt(sizes...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err == nil {
		r, err = store.ParseReceipt(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// seen is the size of the log that was seen last.
func seen(x *store.Receipts) int64 {
	_, _, n := x.Last()
	return n
}

// size is the number of entries.
func size(l *store.SessionLog) int64 {
	n, _ := l.Last()
	return n
}

// A party keeps a receipt for each session, and refuses a log that has not grown from the last one.
func TestReceiptsFollowOneLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "receipts.jsonl")
	owner, aggregator := clientKey(t, "client"), clientKey(t, "aggregator").Public()
	l, x := openLog(t, ""), new(store.Receipts)
	for i := range 20 {
		logged(t, l, begun(2*i))
		var err error
		if x, err = store.OpenReceipts(path); err != nil || seen(x) != int64(2*i) {
			t.Fatalf("%d entries were seen, %v", seen(x), err)
		}
		logged(t, l, ended(t, 2*i))
		r := receiptOf(t, l, seen(x))
		if _, err = x.Meet(r, aggregator, false); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		if err = x.Add(r, owner, 3); err != nil {
			t.Fatal(err)
		}
	}
	last, leaf, _ := x.Last()
	end, err := leaf.End()
	if err != nil {
		t.Fatal(err)
	}
	if !x.Has(fmt.Sprintf("%032x", 38)) || x.Has(fmt.Sprintf("%032x", 39)) || last.Party != owner.Public() || leaf.Rounds != 3 || end.Verify(serverKey().Public().(ed25519.PublicKey)) != nil {
		t.Errorf("the last receipt is %+v of %+v", last, leaf)
	}
	fork := openLog(t, "")
	for i := range 60 {
		logged(t, fork, begun(100+i))
	}
	logged(t, fork, ended(t, 200))
	short := openLog(t, "")
	logged(t, short, ended(t, 0))
	logged(t, l, ended(t, 40))
	unproved, twice := receiptOf(t, l), receiptOf(t, l, 40, 39)
	twice.Grown[40] = twice.Grown[39]
	for name, r := range map[string]*store.Receipt{"another log": receiptOf(t, fork, 40), "a shorter log": receiptOf(t, short), "no proof": unproved, "another proof": twice} {
		if _, err := x.Meet(r, aggregator, false); !errors.Is(err, store.ErrTwoLogs) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := x.Meet(receiptOf(t, l, 40), clientKey(t, "another").Public(), false); !errors.Is(err, store.ErrLog) {
		t.Errorf("another key: %v", err)
	}
	if _, err := x.Meet(unproved, aggregator, true); err != nil || !unproved.Unchecked {
		t.Errorf("behind a relay, without a proof: %v", err)
	}
	if _, err := x.Meet(receiptOf(t, fork, 40), aggregator, true); !errors.Is(err, store.ErrTwoLogs) {
		t.Errorf("behind a relay, with a wrong proof: %v", err)
	}
	other := receiptOf(t, l, 40)
	other.Leaf = receiptOf(t, fork).Leaf
	if _, err := x.Meet(other, aggregator, false); !errors.Is(err, store.ErrLog) {
		t.Errorf("a leaf of another log: %v", err)
	}
}

// A kept receipt that was changed is refused, and so are keys whose signatures need no private key.
func TestReceiptsAreSigned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "receipts.jsonl")
	l := openLog(t, "")
	x, err := store.OpenReceipts(path)
	if err != nil {
		t.Fatal(err)
	}
	logged(t, l, ended(t, 1))
	r := receiptOf(t, l)
	if _, err = x.Meet(r, clientKey(t, "aggregator").Public(), false); err != nil {
		t.Fatal(err)
	}
	if err = x.Add(r, clientKey(t, "client"), 3); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept := func() *store.Receipt {
		k, failed := store.ParseReceipt(text)
		if failed != nil {
			t.Fatal(failed)
		}
		return k
	}
	if _, _, err = kept().VerifyKept(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*store.Receipt){
		"another count of rounds": func(r *store.Receipt) { r.Charged = 2 },
		"checked":                 func(r *store.Receipt) { r.Unchecked = true },
		"another party":           func(r *store.Receipt) { r.Party = clientKey(t, "another").Public() },
		"no party":                func(r *store.Receipt) { r.Party, r.Signature = admission.PublicKey{}, admission.Signature{} },
		"another log":             func(r *store.Receipt) { r.Log = clientKey(t, "another").Public() },
	} {
		k := kept()
		if change(k); func() error { _, _, wrong := k.VerifyKept(); return wrong }() == nil {
			t.Errorf("%s: it verifies", name)
		}
	}
	for i := range 3 { // a line is damaged, cut off, or of another form
		bad := append([]byte{}, text...)
		switch i {
		case 0:
			bad[len(bad)/2] ^= 1
		case 1:
			bad = bad[:len(bad)-20]
		case 2:
			bad = []byte("{}\n")
		}
		if err = os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err = store.OpenReceipts(path); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Errorf("damage %d: %v", i, err)
		}
	}
	zero := ended(t, 1) // ed25519 takes a zero key with a zero signature
	zero.Server, zero.Signature = make([]byte, 32), make([]byte, 64)
	entry, err := zero.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = protocol.ParseLeaf(entry); err == nil {
		t.Error("a leaf of the zero key")
	}
}

// BenchmarkReceipt reports the bytes of a receipt at 10^5 sessions, as it travels and as it is kept.
func BenchmarkReceipt(b *testing.B) {
	l := openLog(b, "")
	for i := range 100_000 {
		logged(b, l, begun(i), ended(b, i))
	}
	var shownBytes, kept int
	for b.Loop() {
		r, err := l.Receipt(size(l) - 2)
		if err != nil {
			b.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			b.Fatal(err)
		}
		x := new(store.Receipts)
		if _, err = x.Meet(r, clientKey(b, "aggregator").Public(), false); err == nil {
			err = x.Add(r, clientKey(b, "client"), 3)
		}
		if err != nil {
			b.Fatal(err)
		}
		last, _, _ := x.Last()
		line, err := json.Marshal(last)
		if err != nil {
			b.Fatal(err)
		}
		shownBytes, kept = len(text), len(line)
	}
	b.ReportMetric(float64(shownBytes), "bytes-shown")
	b.ReportMetric(float64(kept), "bytes-kept")
}
