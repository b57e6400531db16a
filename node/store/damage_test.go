package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

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

// pageOf finds the first page of a kind that has elements, by the header that
// bbolt documents: number, kind, number of elements.
func pageOf(t *testing.T, b []byte, kind uint16) (at int) {
	t.Helper()
	for at = 2 * page; at < len(b); at += page {
		if binary.NativeEndian.Uint16(b[at+8:]) == kind && binary.NativeEndian.Uint16(b[at+10:]) > 0 && binary.NativeEndian.Uint64(b[at:]) == uint64(at/page) {
			return at
		}
	}
	t.Fatalf("there is no page of kind %d", kind)
	return 0
}

// Damage that bbolt would follow for ever, run out of memory with, or not notice
// before it has written over something.
func TestTrees(t *testing.T) {
	const branch, leaf, freeList = 1, 2, 16
	path := file(t)
	log := open(t, path)
	var entries []string
	for i := range 20 {
		entries = append(entries, strings.Repeat("x", page/3+i))
		add(t, log, entries[i])
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	good := readFile(t, path)
	put64 := func(b []byte, at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }
	put32 := func(b []byte, at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }
	put16 := func(b []byte, at int, v uint16) { binary.NativeEndian.PutUint16(b[at:], v) }
	for _, c := range []struct {
		name   string
		change func(b []byte)
		want   string
	}{
		{"a branch that leads to itself", func(b []byte) { at := pageOf(t, b, branch); put64(b, at+24, uint64(at/page)) }, "in use twice"},
		{"a branch of two equal ones", func(b []byte) { at := pageOf(t, b, branch); copy(b[at+24:at+32], b[at+40:at+48]) }, "in use twice"},
		{"a branch to nowhere", func(b []byte) { at := pageOf(t, b, branch); put64(b, at+24, 1<<40) }, "there is no page"},
		{"a branch with a key elsewhere", func(b []byte) { at := pageOf(t, b, branch); put32(b, at+16, 1<<20) }, "outside"},
		{"a branch of another kind", func(b []byte) { put16(b, pageOf(t, b, branch)+8, 4) }, "of kind 4"},
		{"a page that goes on", func(b []byte) { put32(b, pageOf(t, b, branch)+12, 1<<31) }, "missing or in use twice"},
		{"a page of another number", func(b []byte) { put64(b, pageOf(t, b, branch), 1) }, "says that it is another"},
		{"a page of too many elements", func(b []byte) { put16(b, pageOf(t, b, branch)+10, 60000) }, "60000 elements"},
		{"a leaf with a value elsewhere", func(b []byte) { put32(b, pageOf(t, b, leaf)+28, 1<<20) }, "outside"},
		{"a free page that is not", func(b []byte) { at := pageOf(t, b, freeList); put64(b, at+16, uint64(pageOf(t, b, branch)/page)) }, "in use twice"},
		{"a free page forgotten", func(b []byte) {
			at := pageOf(t, b, freeList)
			put16(b, at+10, binary.NativeEndian.Uint16(b[at+10:])-1)
		}, "neither free nor in use"},
		{"more free pages than fit", func(b []byte) { put16(b, pageOf(t, b, freeList)+10, uint16(page/8)) }, "has no room"},
		{"a small bucket that is a branch", func(b []byte) {
			// The bucket's name, that it has no page of its own, its sequence, and
			// the header of the page that stands in its place.
			small := append([]byte("meta"), make([]byte, 24)...)
			for at := bytes.Index(b, small); at >= 0; at = bytes.Index(b, small) {
				put16(b, at+28, branch)
				b[at+4+16] = 1 // not found again
			}
		}, "a bucket that is no leaf"},
		{"the free list elsewhere", func(b []byte) { put16(b, pageOf(t, b, freeList)+8, leaf) }, ""}, // bbolt sees that first
	} {
		b := bytes.Clone(good)
		if c.change(b); bytes.Equal(b, good) {
			t.Fatalf("%s: nothing was changed", c.name)
		}
		log, err := store.OpenLog(put(t, t.TempDir(), b), kind)
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), c.want) || log != nil {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	holds(t, open(t, put(t, t.TempDir(), good)), entries...)
}

// A disk that lost writes keeps older versions of pages, each sound by itself. The head is not the
// last entry after a transaction of another program.
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
	// Transactions take turns with the first two pages. bbolt makes two (0 and 1), the creation of
	// the log makes one, and each append makes one.
	commit := (2 + len(versions)) % 2 * page
	dir := t.TempDir()
	for v, old := range versions[:len(versions)-1] {
		for at := 0; at < len(old); at += page {
			b := bytes.Clone(last)
			copy(b[at:at+page], old[at:at+page])
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
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(db.Update(func(*bbolt.Tx) error { return nil }), db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err = store.OpenLog(path, kind); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("after another's transaction: %v", err)
	}
}
