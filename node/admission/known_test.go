package admission_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// A client that keeps what lists are compared by has the same list after a restart, and knows its text by the
// digest. Lists without a party that it knows, or with another in its place, are refused as ever.
func TestKnownPartiesAreKept(t *testing.T) {
	w := newWorld(t, 6)
	hub, _ := w.registry()
	for _, p := range []admission.Place{admission.ServerPlace, client(0), client(1)} {
		w.redeem(hub, w.enrol(p, 1, p.String()))
	}
	r, log := w.registry()
	r.KeepKnown()
	for _, p := range []admission.Place{client(2), client(3)} {
		if _, _, err := r.Take(shown(t, hub)); err != nil {
			t.Fatal(err)
		}
		w.redeem(hub, w.enrol(p, 1, p.String()))
	}
	text := shown(t, hub)
	if _, _, err := r.Take(text); err != nil {
		t.Fatal(err)
	}
	size := 0
	if err := log.Entries(func(e []byte) error { size += len(e); return nil }); err != nil || size > 5*150+3*150 {
		t.Errorf("5 parties and 3 lists take %d bytes, %v", size, err)
	}
	again := w.reopen(log)
	again.KeepKnown()
	l, digest, err := again.Current()
	if err != nil || digest != sha256.Sum256(text) || l.Hash() != hub.List().Hash() {
		t.Errorf("after a restart the list is %x of the text %x, %v", l.Hash(), digest, err)
	}
	if diff := cmp.Diff(hub.List().Identities(), l.Identities()); diff != "" {
		t.Errorf("after a restart the keys differ (-hub +client):\n%s", diff)
	}
	if _, _, err = again.Take(text); err != nil {
		t.Errorf("the same list after a restart: %v", err)
	}
	less, _ := w.registry()
	w.redeem(less, w.enrol(admission.ServerPlace, 1, admission.ServerPlace.String()))
	if _, _, err = again.Take(shown(t, less)); !errors.Is(err, admission.ErrForgotten) {
		t.Errorf("a list without known parties: %v, want %v", err, admission.ErrForgotten)
	}
	other, _ := w.registry()
	for _, e := range hub.List().Enrolments {
		if e.Ticket.Place == client(1) {
			e = *w.enrol(client(1), 2, "another")
		}
		w.redeem(other, &e)
	}
	if _, _, err = again.Take(shown(t, other)); !errors.Is(err, admission.ErrHeld) {
		t.Errorf("a list with another in a place: %v, want %v", err, admission.ErrHeld)
	}
}

// A registry that has whole enrolments is read, and added to briefly.
func TestWholeRegistryIsContinuedBriefly(t *testing.T) {
	w := newWorld(t, 4)
	hub, _ := w.registry()
	w.redeem(hub, w.enrol(admission.ServerPlace, 1, "server"), w.enrol(client(0), 1, "client 0"))
	r, log := w.registry()
	if _, _, err := r.Take(shown(t, hub)); err != nil {
		t.Fatal(err)
	}
	w.redeem(hub, w.enrol(client(1), 1, "client 1"))
	brief := w.reopen(log)
	brief.KeepKnown()
	if _, _, err := brief.Take(shown(t, hub)); err != nil {
		t.Fatal(err)
	}
	if again := w.reopen(log); again.List().Hash() != hub.List().Hash() {
		t.Error("it is another list after a restart")
	}
}

// Entries that no registry wrote are refused.
func TestMalformedKnownParties(t *testing.T) {
	w := newWorld(t, 2)
	for name, entry := range map[string]string{
		"half a party": `{"fedsim-known-v1":{"text":"` + fmt.Sprintf("%064x", 1) + `","parties":"AAAA"}}`,
		"no text":      `{"fedsim-known-v1":{"parties":""}}`,
	} {
		log := store.NewMemoryLog()
		if err := log.Append([]byte(entry)); err != nil {
			t.Fatal(err)
		}
		if _, err := admission.OpenRegistry(w.federation, log); !errors.Is(err, admission.ErrMalformed) {
			t.Errorf("%s: %v, want %v", name, err, admission.ErrMalformed)
		}
	}
}

// BenchmarkRegister has the clients of one process take over the whole list on disk, as when they register. It reports
// the bytes on disk and in memory for each client.
func BenchmarkRegister(b *testing.B) {
	for _, clients := range []int{200, 400, 800} {
		for name, brief := range map[string]bool{"whole": false, "known": true} {
			w := newWorld(b, clients)
			text := shown(b, w.full())
			b.Run(fmt.Sprintf("%d/%s", clients, name), func(b *testing.B) {
				for range b.N {
					register(b, w, text, clients, brief)
				}
			})
		}
	}
}

func register(b *testing.B, w *world, text []byte, clients int, brief bool) {
	b.Helper()
	dir := b.TempDir()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all []*admission.Registry
	verified := new(admission.Verified)
	disk := int64(0)
	for i := range clients {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := store.CreateRegistry(path, w.federation); err != nil {
			b.Fatal(err)
		}
		log, err := store.OpenRegistry(path, w.federation)
		if err != nil {
			b.Fatal(err)
		}
		r, err := admission.OpenRegistry(w.federation, log)
		if err != nil {
			b.Fatal(err)
		}
		r.Share(verified)
		if brief {
			r.KeepKnown()
		}
		if _, _, err = r.Take(text); err != nil {
			b.Fatal(err)
		}
		all = append(all, r)
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		disk += info.Size()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(disk)/float64(clients), "B-on-disk/client")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(clients), "B-in-memory/client")
	for _, r := range all {
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
