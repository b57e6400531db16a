package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

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

// page is the size of bbolt's pages here.
var page = os.Getpagesize()

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
// say what they are, and some in between.
func TestDamagedLogs(t *testing.T) {
	b, entries := manyEntries(t)
	dir := t.TempDir()
	const head, stride = 96, 256
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
