package admission_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/node/store"
)

// put writes a file of another name each time: a log that was found damaged may
// stay locked.
func put(t *testing.T, dir string, b []byte) (path string) {
	t.Helper()
	f, err := os.CreateTemp(dir, "log")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// damaged opens a log whose file holds those bytes. It must be refused and left
// alone, or hold exactly what was written to it; then it is written to, and must
// hold exactly that as well, or be refused from then on.
func damaged(t *testing.T, dir string, b []byte, want []string) (refused bool) {
	t.Helper()
	path := put(t, dir, b)
	defer os.Remove(path) //nolint:errcheck // the folder goes anyway
	log := sound(t, path, want)
	if log == nil {
		if !bytes.Equal(readFile(t, path), b) {
			t.Error("what was refused was changed")
		}
		return true
	}
	after := append(slices.Clone(want), "more")
	if err := log.Append([]byte("more")); err != nil {
		after = want // refused, so the log is closed, and what is there stays
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	again := put(t, dir, readFile(t, path))
	defer os.Remove(again) //nolint:errcheck // the folder goes anyway
	if log = sound(t, again, after); log != nil {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
	return false
}

// sound opens a log that holds what is wanted, if it is not refused.
func sound(t *testing.T, path string, want []string) store.Log {
	t.Helper()
	log, err := store.OpenLog(path, kind)
	if err == nil {
		got, failed := read(log)
		if failed != nil || !slices.Equal(got, want) {
			t.Errorf("it is opened and holds %d entries (%v), want the %d that were written", len(got), failed, len(want))
		}
		return log
	}
	if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrOwner) && !errors.Is(err, store.ErrFormat) {
		t.Errorf("refused with %v", err)
	}
	if !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not name the file: %v", err)
	}
	return nil
}

// page is the room of a head.
const page = 4096

// manyEntries fill several pages, one of them more than a page, and are written in
// several transactions, so that there are pages of earlier ones, too.
func manyEntries(t *testing.T) (b []byte, entries []string) {
	path := file(t)
	log := open(t, path)
	for i := range 4 {
		entries = append(entries, fmt.Sprintf("entry %d %s", i, strings.Repeat("x", page/2)))
		if i == 2 {
			entries[i] += strings.Repeat("y", page)
		}
		add(t, log, entries[i])
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return readFile(t, path), entries
}

// A bit that changed is noticed, or changes nothing: one of every byte where pages
// say what they are (the long run: and what they hold), and some in between.
func TestDamagedLogs(t *testing.T) {
	effort.NotShort(t, "a log for each damaged byte")
	b, entries := manyEntries(t)
	dir := t.TempDir()
	head, stride := 96, 256
	if !effort.Long() {
		head, stride = 24, 1024
	}
	tried, refused := 0, 0
	for i := range b {
		if at := i % page; at >= head && at%stride != 0 {
			continue
		}
		c := bytes.Clone(b)
		c[i] ^= 1 << (i * 5 % 8)
		tried++
		if damaged(t, dir, c, entries) {
			refused++
		}
		if t.Failed() {
			t.Fatalf("byte %d changed", i)
		}
	}
	t.Logf("of a file of %d bytes, %d were changed and %d noticed", len(b), tried, refused)
	if refused < tried/10 {
		t.Errorf("%d of %d changes were noticed; the test shows little", refused, tried)
	}
}

// A file that was cut off is refused, unless only room that was never used is gone.
func TestTornLogs(t *testing.T) {
	b, entries := manyEntries(t)
	dir := t.TempDir()
	for n := 0; n < len(b); n += 509 {
		damaged(t, dir, b[:n], entries)
		if zeros := append(bytes.Clone(b[:n]), make([]byte, len(b)-n)...); n%page < 509 {
			damaged(t, dir, zeros, entries)
		}
		if t.Failed() {
			t.Fatalf("cut off after %d of %d bytes", n, len(b))
		}
	}
}

// A disk that lost writes keeps older versions of pages, each sound by itself.
func TestLostWrites(t *testing.T) {
	path := file(t)
	var entries []string
	var versions [][]byte
	for i := range 6 {
		log := open(t, path)
		entries = append(entries, fmt.Sprintf("entry %d %s", i, strings.Repeat("x", page/8)))
		add(t, log, entries[i])
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, readFile(t, path))
	}
	last := versions[len(versions)-1]
	// Heads take turns with the first two pages. The creation of the log makes two (0 and 1), and each append makes one.
	commit := (1 + len(versions)) % 2 * page
	dir := t.TempDir()
	for v, old := range versions[:len(versions)-1] {
		for at := 0; at < len(old); at += page {
			b := bytes.Clone(last)
			copy(b[at:], old[at:min(at+page, len(old))])
			want := entries
			if v >= len(versions)-3 && at == commit {
				// The page is two transactions old. This is the only loss that looks as if the last
				// append had never been.
				want = entries[:len(entries)-1]
			}
			if log := sound(t, put(t, dir, b), want); log != nil {
				if err := log.Close(); err != nil {
					t.Error(err)
				}
			}
			if t.Failed() {
				t.Fatalf("page %d as after append %d", at/page, v)
			}
		}
	}
}
