package admission_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/node/store"
)

var kind = store.Kind{Format: "test-v1", Owner: [32]byte{1, 2, 3}}

// file makes the file of a log with these entries and gives its path.
func file(t testing.TB, entries ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	if err := store.CreateLog(path, kind); err != nil {
		t.Fatal(err)
	}
	log := open(t, path)
	if len(entries) > 0 {
		add(t, log, entries...)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path string) store.Log {
	t.Helper()
	log, err := store.OpenLog(path, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func add(t testing.TB, log store.Log, entries ...string) {
	t.Helper()
	b := make([][]byte, len(entries))
	for i, e := range entries {
		b[i] = []byte(e)
	}
	if err := log.Append(b...); err != nil {
		t.Fatal(err)
	}
}

// read is everything in a log.
func read(log store.Log) ([]string, error) {
	var got []string
	err := log.Entries(func(entry []byte) error {
		got = append(got, string(entry))
		return nil
	})
	return got, err
}

func logHolds(t testing.TB, log store.Log, want ...string) {
	t.Helper()
	if got, err := read(log); err != nil || !slices.Equal(got, want) {
		t.Errorf("the log holds %q (%v), want %q", got, err, want)
	}
}

// logs are the forms that a log has; each has to pass every test of a Log.
var logs = map[string]func(testing.TB) store.Log{
	"memory": func(testing.TB) store.Log { return store.NewMemoryLog() },
	"file":   func(t testing.TB) store.Log { return open(t, file(t)) },
}

func TestLog(t *testing.T) {
	for name, make := range logs {
		t.Run(name, func(t *testing.T) {
			log := make(t)
			logHolds(t, log)
			add(t, log, "first", "second")
			add(t, log)
			add(t, log, "", "first")
			logHolds(t, log, "first", "second", "", "first")
			// The log keeps its own copies of the entries that it takes and returns.
			entry := bytes.Repeat([]byte("third"), 5000)
			if err := log.Append(entry); err != nil {
				t.Fatal(err)
			}
			copy(entry, "12345")
			if err := log.Entries(func(entry []byte) error { clear(entry); return nil }); err != nil {
				t.Fatal(err)
			}
			logHolds(t, log, "first", "second", "", "first", strings.Repeat("third", 5000))
			// An error ends it there.
			calls, stop := 0, errors.New("stop")
			err := log.Entries(func([]byte) error {
				if calls++; calls == 2 {
					return stop
				}
				return nil
			})
			if !errors.Is(err, stop) || calls != 2 {
				t.Errorf("after %d calls: %v", calls, err)
			}
			for range 2 {
				if err := log.Close(); err != nil {
					t.Errorf("closing: %v", err)
				}
			}
			if err := log.Append([]byte("late")); !errors.Is(err, store.ErrClosed) {
				t.Errorf("appending to a closed log: %v", err)
			}
			if err := log.Append(); !errors.Is(err, store.ErrClosed) {
				t.Errorf("appending nothing to a closed log: %v", err)
			}
			if _, err := read(log); !errors.Is(err, store.ErrClosed) {
				t.Errorf("reading a closed log: %v", err)
			}
		})
	}
}

// Many entries, of many sizes, in one append and in several: all there after a
// restart, in their order.
func TestLogsLast(t *testing.T) {
	path := file(t)
	var want []string
	for i := range 40 {
		log := open(t, path)
		logHolds(t, log, want...)
		var more []string
		for j := range i % 7 {
			more = append(more, string(bytes.Repeat([]byte{byte(i), byte(j)}, i*j*20)))
		}
		add(t, log, more...)
		want = append(want, more...)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	logHolds(t, open(t, path), want...)
}

func TestCreateLog(t *testing.T) {
	path := file(t, "first")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("the mode is %v, want 0600", info.Mode())
	}
	if err := store.CreateLog(path, kind); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	logHolds(t, open(t, path), "first")
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v), want one file", entries, err)
	}
	if err := store.CreateLog(filepath.Join(t.TempDir(), "none", "log"), kind); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made in a folder that does not exist: %v", err)
	}
}

func TestLogsThatAreNotOpened(t *testing.T) {
	path := file(t, "first")
	missing := filepath.Join(t.TempDir(), "log")
	if _, err := store.OpenLog(missing, kind); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := store.OpenLog(t.TempDir(), kind); !errors.Is(err, syscall.EISDIR) || errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a folder: %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening made the file (%v)", err)
	}
	if _, err := store.OpenLog(path, store.Kind{Format: kind.Format, Owner: [32]byte{1, 2, 4}}); !errors.Is(err, store.ErrOwner) {
		t.Errorf("another's file: %v", err)
	}
	if _, err := store.OpenLog(path, store.Kind{Format: "test-v2", Owner: kind.Owner}); !errors.Is(err, store.ErrFormat) {
		t.Errorf("a file of another version: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text")
	for _, b := range [][]byte{nil, []byte("no database"), bytes.Repeat([]byte("no database"), 10000), make([]byte, 32768)} {
		if err := os.WriteFile(text, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.OpenLog(text, kind); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%d bytes of something else: %v", len(b), err)
		}
		if after, err := os.ReadFile(text); err != nil || !bytes.Equal(after, b) {
			t.Errorf("%d bytes of something else were overwritten (%v)", len(b), err)
		}
	}
	logHolds(t, open(t, path), "first")
}

// The file belongs to the log that opened it, also against the same process.
func TestLogsAreLocked(t *testing.T) {
	path := file(t, "first")
	log := open(t, path)
	if _, err := store.OpenLog(path, kind); !errors.Is(err, store.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	add(t, log, "second")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	logHolds(t, open(t, path), "first", "second")
}
