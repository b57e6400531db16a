package admission_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

var experiment = protocol.Hash{7: 7}

func checkpoint(i uint64) *store.Checkpoint {
	return &store.Checkpoint{Session: one, Round: i, Experiment: experiment, State: []byte(fmt.Sprintf("state of %d %s", i, strings.Repeat("x", 100)))}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// saved is a folder in which these rounds were saved, one after the other.
func saved(t *testing.T, rounds ...uint64) string {
	t.Helper()
	dir := t.TempDir()
	for _, i := range rounds {
		if err := store.SaveCheckpoint(dir, checkpoint(i)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loads fails the test unless that round is loaded, with a fallback or without.
func loads(t *testing.T, dir string, i uint64, fallback error) {
	t.Helper()
	c, why, err := store.LoadCheckpoint(dir, experiment)
	if err != nil || !reflect.DeepEqual(c, checkpoint(i)) {
		t.Errorf("loaded %+v (%v), want round %d", c, err, i)
	}
	if !errors.Is(why, fallback) || (why == nil) != (fallback == nil) {
		t.Errorf("fallback: %v, want %v", why, fallback)
	}
}

// The newest checkpoint is there at every moment while the next is saved.
func TestNewestCheckpointStays(t *testing.T) {
	dir := saved(t, 1)
	done := make(chan error)
	go func() {
		var err error
		for i := uint64(2); i < 1000 && err == nil; i++ {
			err = store.SaveCheckpoint(dir, checkpoint(i))
		}
		done <- err
	}()
	for missing := 0; ; {
		if _, err := os.Stat(filepath.Join(dir, "checkpoint")); err != nil {
			missing++
		}
		select {
		case err := <-done:
			if err != nil || missing > 0 {
				t.Errorf("missing %d times, %v", missing, err)
			}
			return
		default:
		}
	}
}

func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := store.LoadCheckpoint(dir, experiment); !errors.Is(err, store.ErrNoCheckpoint) {
		t.Errorf("an empty folder: %v", err)
	}
	for _, i := range []uint64{1, 2, 2, 5} { // twice in a round, and past some
		if err := store.SaveCheckpoint(dir, checkpoint(i)); err != nil {
			t.Fatal(err)
		}
		loads(t, dir, i, nil)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("the folder holds %v (%v), want two files", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v (%v), want mode 0600", e.Name(), info.Mode(), err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "checkpoint")); err != nil {
		t.Fatal(err)
	}
	loads(t, dir, 2, fs.ErrNotExist) // killed between keeping the old and naming the new
	if err := store.SaveCheckpoint(dir, checkpoint(3)); err != nil {
		t.Fatal(err)
	}
	loads(t, dir, 3, nil)
	if err := store.SaveCheckpoint(filepath.Join(dir, "none"), checkpoint(1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("saved to a folder that does not exist: %v", err)
	}
}

// The bytes were put together by hand: magic, session, round, experiment,
// state; the SHA-256 by sha256sum.
func TestCheckpointFile(t *testing.T) {
	dir := t.TempDir()
	c := &store.Checkpoint{Session: protocol.SessionID{1, 15: 2}, Round: 258, Experiment: protocol.Hash{3, 31: 4}, State: []byte("state")}
	if err := store.SaveCheckpoint(dir, c); err != nil {
		t.Fatal(err)
	}
	const want = "66656473696d2d636865636b706f696e742d76310a" +
		"01000000000000000000000000000002" + "0000000000000102" +
		"0300000000000000000000000000000000000000000000000000000000000004" + "7374617465" +
		"6d51a08021f7306a06f3ccb0c80f8fedaaf9e7cef0eea00b04c9d668f5dde485"
	if got := readFile(t, filepath.Join(dir, "checkpoint")); hex.EncodeToString(got) != want {
		t.Errorf("the file is\n%x, want\n%s", got, want)
	}
	c.State = nil
	if err := store.SaveCheckpoint(dir, c); err != nil {
		t.Fatal(err)
	}
	if again, _, err := store.LoadCheckpoint(dir, c.Experiment); err != nil || len(again.State) != 0 {
		t.Errorf("an empty state is loaded as %+v (%v)", again, err)
	}
}

// Torn anywhere or with any bit changed, the newest gives way to the previous one,
// which stays there until there are two sound ones again.
func TestDamagedCheckpoints(t *testing.T) {
	dir := saved(t, 4, 5)
	path := filepath.Join(dir, "checkpoint")
	good := readFile(t, path)
	try := func(b []byte) {
		t.Helper()
		// Some file systems sync what is written over, which takes its time.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		loads(t, dir, 4, store.ErrCorrupt)
	}
	for n := range good {
		try(good[:n])
		// The rest is zeros, unless the file has zeros there anyway.
		if b := append(bytes.Clone(good[:n]), make([]byte, len(good)-n)...); !bytes.Equal(b, good) {
			try(b)
		}
	}
	try(append(bytes.Clone(good), 0))
	short := sha256.Sum256(good[:21]) // of the magic alone, which it says is all
	try(append(bytes.Clone(good[:21]), short[:]...))
	try(append(bytes.Clone(good), good...))
	for i := range 8 * len(good) {
		b := bytes.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		try(b)
	}
	alone := saved(t, 7)
	if err := os.Truncate(filepath.Join(alone, "checkpoint"), 10); err != nil {
		t.Fatal(err)
	}
	if c, _, err := store.LoadCheckpoint(alone, experiment); !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNoCheckpoint) || c != nil {
		t.Errorf("with one, which is damaged: %v (%v)", c, err)
	}
	if err := store.SaveCheckpoint(dir, checkpoint(6)); err != nil {
		t.Fatal(err)
	}
	loads(t, dir, 6, nil)
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	loads(t, dir, 4, store.ErrCorrupt)
	if err := os.Truncate(filepath.Join(dir, "checkpoint.previous"), 10); err != nil {
		t.Fatal(err)
	}
	if c, _, err := store.LoadCheckpoint(dir, experiment); !errors.Is(err, store.ErrCorrupt) || c != nil {
		t.Errorf("with both damaged: %v (%v)", c, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c, _, err := store.LoadCheckpoint(dir, experiment); !errors.Is(err, store.ErrCorrupt) || c != nil {
		t.Errorf("with one damaged and one missing: %v (%v)", c, err)
	}
}

// Neither another experiment's checkpoint nor one of another version is used or
// written over, and nothing is fallen back on in their place.
func TestCheckpointsOfOthers(t *testing.T) {
	dir := saved(t, 4, 5)
	other := protocol.Hash{8: 8}
	mine := checkpoint(6)
	mine.Experiment = other
	if c, _, err := store.LoadCheckpoint(dir, other); !errors.Is(err, store.ErrOtherExperiment) || c != nil {
		t.Errorf("loaded for another experiment: %v (%v)", c, err)
	}
	if err := store.SaveCheckpoint(dir, mine); !errors.Is(err, store.ErrOtherExperiment) {
		t.Errorf("saved for another experiment: %v", err)
	}
	loads(t, dir, 5, nil)
	path := filepath.Join(dir, "checkpoint")
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if c, _, err := store.LoadCheckpoint(dir, other); !errors.Is(err, store.ErrOtherExperiment) || c != nil {
		t.Errorf("fallen back for another experiment: %v (%v)", c, err)
	}
	// Sound, by the checksum at its end.
	later := bytes.Replace(readFile(t, filepath.Join(saved(t, 6), "checkpoint")), []byte("-v1\n"), []byte("-v2\n"), 1)
	later = later[:len(later)-sha256.Size]
	sum := sha256.Sum256(later)
	later = append(later, sum[:]...)
	if err := os.WriteFile(path, later, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, _, err := store.LoadCheckpoint(dir, experiment); !errors.Is(err, store.ErrFormat) || c != nil {
		t.Errorf("a later version's: %v (%v)", c, err)
	}
	if err := store.SaveCheckpoint(dir, checkpoint(6)); !errors.Is(err, store.ErrFormat) {
		t.Errorf("saved over a later version's: %v", err)
	}
	if !bytes.Equal(readFile(t, path), later) {
		t.Error("a later version's checkpoint was changed")
	}
}
