package admission_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/store"
)

// A checkpoint that can be loaded is saved as the same bytes.
func FuzzCheckpoint(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "checkpoint")
	for _, i := range []uint64{0, 1} {
		if err := store.SaveCheckpoint(dir, checkpoint(i)); err != nil {
			f.Fatal(err)
		}
		f.Add(readFile(f, path))
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "checkpoint")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		c, fallback, err := store.LoadCheckpoint(dir, experiment)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrFormat) && !errors.Is(err, store.ErrOtherExperiment) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if fallback != nil {
			t.Fatalf("there is nothing to fall back on: %v", fallback)
		}
		if err := store.SaveCheckpoint(dir, c); err != nil {
			t.Fatal(err)
		}
		if again := readFile(t, path); !bytes.Equal(again, b) {
			t.Errorf("%x is saved again as %x", b, again)
		}
	})
}

// Two entries that make a ledger give records that a dp.Ledger can be rebuilt
// from, or one with a mechanism that its accountant does not cover.
func FuzzLedger(f *testing.F) {
	log := store.NewMemoryLog()
	l := ledger(f, log)
	persist(f, l, charged(one, 1), charged(one, 2))
	texts, err := read(log)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(texts[0], texts[1])
	f.Add("{}", `{"round":1,"events":null}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		log := store.NewMemoryLog()
		add(t, log, first, second)
		l, err := store.NewLedger(log)
		if err != nil {
			if !errors.Is(err, store.ErrFormat) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		// A charge without events was a sum without noise, and there is no account of it. The test
		// reads that from the texts, not from the ledger.
		unprotected := false
		for _, text := range []string{first, second} {
			var e struct{ Events []json.RawMessage }
			if err = json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatalf("%q was taken: %v", text, err)
			}
			unprotected = unprotected || len(e.Events) == 0
		}
		records, err := l.Records()
		if unprotected != errors.Is(err, store.ErrUnprotected) || err != nil && !unprotected {
			t.Fatalf("a sum without noise: %v; records are refused with %v", unprotected, err)
		}
		if !unprotected && len(records) != 2 {
			t.Errorf("%d records of 2 charges", len(records))
		}
		budget := dp.Budget{Epsilon: 1, Delta: 1e-5, Accountant: dp.RDP}
		if _, err := dp.RestoreLedger(budget, nil, records); errors.Is(err, dp.ErrRoundOrder) {
			t.Error(err)
		}
	})
}
