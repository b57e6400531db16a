package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/agreement"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// unpack puts the files of an archive below a folder, with their modes.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, 0o700)
		} else if text, err = io.ReadAll(r); err == nil {
			err = os.WriteFile(path, text, h.FileInfo().Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// beforeVersions runs a test on what each version before has left: a federation of 20 clients,
// founded, invited and run for two iterations of deploy/demo by tools/compat.sh.
func beforeVersions(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	archives, err := filepath.Glob("testdata/compat/*/state.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no versions before: %v", err)
	}
	for _, archive := range archives {
		t.Run(filepath.Base(filepath.Dir(archive)), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, archive, dir)
			test(t, dir)
		})
	}
}

// A party of a version before keeps its place, its list of parties, and above all what it has
// spent: each of the two iterations is charged, and no later session may forget them.
func TestStateOfVersionsBefore(t *testing.T) {
	beforeVersions(t, func(t *testing.T, dir string) {
		log := zerolog.Nop()
		m, err := openMember(t.Context(), filepath.Join(dir, "client"), "", protocol.Client, &log)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close() //nolint:errcheck // nothing was written
		place, ok := m.registry.Lookup(m.identity.Public())
		if f := m.membership.Federation; f.Name != "Demo" || f.Clients != 20 || !ok || place != admission.ClientPlace(0) {
			t.Errorf("the %v (%v) of %+v", place, ok, f)
		}
		if n := len(m.registry.List().Enrolments); n != 22 {
			t.Errorf("%d parties are on the list, want 20 clients, the server and the aggregator", n)
		}
		records, err := m.ledger.Records()
		if err != nil || len(records) != 2 {
			t.Fatalf("%d records, %v; want one for each iteration", len(records), err)
		}
		for i, r := range records {
			if last := m.ledger.Last(r.Session); last != 2 || r.Iteration != uint64(i+1) {
				t.Errorf("record %d is of iteration %d, and the last is %d", i, r.Iteration, last)
			}
		}
		if err = m.ledger.Persist(protocol.Entered{Session: records[0].Session, Iteration: 2}); !errors.Is(err, store.ErrOrder) {
			t.Errorf("an iteration is entered again: %v", err)
		}
		checkSpent(t, records)
	})
}

// checkSpent: the demonstration plans its noise for epsilon 10 at delta 1e-5 over all its
// iterations, which took place, so that what they cost is that.
func checkSpent(t *testing.T, records []dp.Record) {
	t.Helper()
	l, err := dp.RestoreLedger(dp.Budget{Epsilon: 10, Delta: 1e-5, Accountant: dp.RDP}, nil, records)
	if err != nil {
		t.Fatal(err)
	}
	if spent := l.Spent(); !(spent.Epsilon > 9.9 && spent.Epsilon <= 10) {
		t.Errorf("spent %+v; want epsilon 10, hardly less", spent)
	}
}

// An operator's documents are read as they were written.
func TestDocumentsOfVersionsBefore(t *testing.T) {
	beforeVersions(t, func(t *testing.T, dir string) {
		path := func(name string) string { return filepath.Join(dir, name) }
		f, err := admission.ReadFile(path("federation.json"), admission.ParseFederation)
		if err != nil {
			t.Fatal(err)
		}
		i, err := admission.ReadInvitation(path("client-1.json"))
		if err != nil || i.Federation.Hash() != f.Hash() || i.Ticket.Place != admission.ClientPlace(1) {
			t.Errorf("the invitation is %+v, %v", i, err)
		}
		v, err := admission.ReadFile(path("revocations.json"), admission.ParseRevocations)
		if err != nil || v.Serial != 1 || len(v.Entries) != 1 || v.Entries[0].Place != admission.ClientPlace(5) {
			t.Errorf("the revocations are %+v, %v; want that of the client 5", v, err)
		}
		tickets, err := readTickets(path("tickets.json"), f)
		if err != nil || len(tickets) != 21 {
			t.Errorf("%d tickets, %v; want 22 but that of the client 5", len(tickets), err)
		}
	})
}

// An aggregator goes on with its list. The end of the last session it may not be able to show.
func TestAggregatorOfVersionsBefore(t *testing.T) {
	beforeVersions(t, func(t *testing.T, dir string) {
		path := func(name string) string { return filepath.Join(dir, name) }
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		out, log := &watcher{text: "listening", seen: stop}, new(bytes.Buffer)
		code := run(ctx, []string{"aggregator", "--key", path("aggregator.key"), "--federation", path("federation.json"),
			"--state", path("aggregator"), "--tickets", path("tickets.json"), "--ops", "", "--listen", "/ip4/127.0.0.1/tcp/0"},
			streams{out: out, err: log})
		if code != cli.Done || !strings.Contains(out.String(), "listening  /ip4/127.0.0.1") {
			t.Fatalf("exit code %d\n%s", code, log)
		}
		f, err := admission.ReadFile(path("federation.json"), admission.ParseFederation)
		if err != nil {
			t.Fatal(err)
		}
		registry, err := (&aggregatorCmd{State: path("aggregator")}).registry(f)
		if err != nil {
			t.Fatal(err)
		}
		defer registry.Close() //nolint:errcheck // nothing was written
		if n := len(registry.List().Enrolments); n != 22 {
			t.Errorf("%d parties are on the list, want 20 clients, the server and the aggregator", n)
		}
	})
}

// A session ends with the version that began it: a server says so of what was agreed by another,
// and touches nothing. Its checkpoint can be read all the same. Once it has ended, as its model
// in the state tells, the next one begins.
func TestSessionsOfVersionsBefore(t *testing.T) {
	beforeVersions(t, func(t *testing.T, dir string) {
		state := filepath.Join(dir, "server")
		text, err := os.ReadFile(filepath.Join(state, publicFile))
		if err != nil {
			t.Fatal(err)
		}
		config := resolved(t, "algorithm=lfl-sgdmf rounds=3")
		f, err := facts(t.Context(), config, demo+"/items", "", 20)
		if err != nil {
			t.Fatal(err)
		}
		ended, err := sessionIn(filepath.Join(state, modelFolder, summaryFile))
		if err != nil {
			t.Fatal(err)
		}
		if n, failed := propose(config, f, state, ""); failed != nil || ended == "" || n.past != ended {
			t.Errorf("the session after %q: %+v, %v", ended, n, failed)
		}
		if err = os.RemoveAll(filepath.Join(state, modelFolder)); err != nil { // and it has not ended
			t.Fatal(err)
		}
		if _, err = agreement.Decode(text); err != nil && !errors.Is(err, agreement.ErrFormat) {
			t.Errorf("what was agreed: %v", err)
		}
		other := err != nil
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"server", demo + "/experiment.yaml", "--items", demo + "/items", "--set", "rounds=3", "--state", state},
			streams{out: &out, err: &errs})
		if other && (code != cli.Failed || !strings.Contains(errs.String(), "end the session with the version that began it")) {
			t.Errorf("exit code %d, %s", code, &errs)
		}
		after, err := os.ReadFile(filepath.Join(state, publicFile))
		if err != nil || !bytes.Equal(after, text) {
			t.Errorf("what was agreed has changed: %v", err)
		}
		if _, _, err = store.LoadCheckpoint(state, protocol.Hash{}); !errors.Is(err, store.ErrOtherExperiment) {
			t.Errorf("its checkpoint, asked for as another experiment's: %v", err)
		}
	})
}
