package command

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	openedtest "github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// ending is a state whose session has ended, with its record beside the model.
func ending(t *testing.T) (dir string, c config.Config, f agreement.Facts) {
	t.Helper()
	dir, c, f, p := begun(t)
	leave(t, dir, p, nil)
	return dir, c, f
}

// leave ends the session of a state as if it had released its start.
func leave(t *testing.T, dir string, p *agreement.Public, start *algorithm.Start) {
	t.Helper()
	e, err := party.OpenSession(p, dir, start)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Strategy()
	if err != nil {
		t.Fatal(err)
	}
	record, err := e.Record(s, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	model := party.ModelFolderOf(dir, hexOf(p))
	if err = os.MkdirAll(model, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err = party.WriteRecord(model, e, record); err != nil {
		t.Fatal(err)
	}
	if err = party.SetCurrent(dir, hexOf(p)); err != nil {
		t.Fatal(err)
	}
	write(t, string(mark(hexOf(p))), dir, party.EndedFile)
}

// next is the proposal of a server that is started with --start-from.
func next(dir string, c config.Config, f agreement.Facts, from, again string) (*party.Proposal, *algorithm.Start, error) {
	algorithm.StartFrom.Set(&c, from)
	start, err := party.ReadStart(c, dir)
	if err != nil {
		return nil, nil, err
	}
	f.Start = agreement.StartOf(start)
	p, err := party.Propose(c, f, dir, again)
	return p, start, err
}

// A server starts a session from the newest model of its state. Started again with last, it continues that session with the
// same releases, whatever current leads to by then. It needs --again for another session of the same experiment.
func TestServerStartsFromLast(t *testing.T) {
	dir, c, f := ending(t)
	if _, _, err := next(dir, c, f, "last", ""); !cli.IsMisuse(err) || !strings.Contains(err.Error(), "--again session") {
		t.Errorf("the same experiment: %v", err)
	}
	second, start, err := next(dir, c, f, "last", "session")
	if err == nil {
		err = second.Begin(start)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := second.Public.Facts.Start; got == nil || len(got.Sessions) != 1 {
		t.Fatalf("it starts from %+v", got)
	}
	if err = os.Remove(filepath.Join(dir, party.CurrentLink)); err != nil {
		t.Fatal(err)
	}
	again, start, err := next(dir, c, f, "last", "session")
	if err != nil || again.Past != "" || hexOf(again.Public) != hexOf(second.Public) {
		t.Errorf("started again: %+v, %v", again, err)
	}
	if _, err = party.OpenSession(again.Public, dir, start); err != nil {
		t.Error(err)
	}
	if _, _, err = next(dir, c, f, "", ""); !cli.IsMisuse(err) || !strings.Contains(err.Error(), "other in start-from") {
		t.Errorf("started again from nothing: %v", err)
	}
	leave(t, dir, second.Public, start)
	third, _, err := next(dir, c, f, "last", "session")
	if err != nil || len(third.Public.Facts.Start.Sessions) != 2 {
		t.Errorf("the third session: %+v, %v", third, err)
	}
	end, _, err := next(dir, c, f, "last", "end")
	if err != nil || hexOf(end.Public) != hexOf(second.Public) {
		t.Fatalf("--again end: %v", err)
	}
	if _, err = party.OpenSession(end.Public, dir, nil); err != nil {
		t.Errorf("the end of the second session: %v", err)
	}
}

// The server's state and the aggregator's are copies from before the second session, so that the server starts the third from
// the first alone. A client whose ledger has the second session says so. It says nothing of the first and of the present one.
func TestClientWarnsOfAForgottenSession(t *testing.T) {
	t.Parallel()
	dir, c, f := ending(t)
	third, _, err := next(dir, c, f, "last", "session")
	if err != nil {
		t.Fatal(err)
	}
	text, err := third.Public.Encode()
	if err != nil {
		t.Fatal(err)
	}
	first, forgotten := third.Public.Facts.Start.Sessions[0].Session, protocol.SessionID{2}
	for _, forgets := range []bool{false, true} {
		ledger, err := store.NewLedger(store.NewMemoryLog())
		if err != nil {
			t.Fatal(err)
		}
		ledger.Protect(dp.Protection{Unit: dp.User, Relation: dp.ZeroOut})
		charged := []protocol.SessionID{third.Public.Session, {}}
		if _, err = hex.Decode(charged[1][:], []byte(first)); err != nil {
			t.Fatal(err)
		}
		if forgets {
			charged = append(charged, forgotten)
		}
		for _, session := range charged {
			if err = ledger.Persist(protocol.Charged{Session: session, Round: 1, Events: []dp.Event{dp.Gaussian(1)}}); err != nil {
				t.Fatal(err)
			}
		}
		var said bytes.Buffer
		log := zerolog.New(&said)
		d := &clientHost{clientCmd: &clientCmd{Data: demo + "/ratings.csv", User: "7", consent: consent{MaxEpsilon: 10}}}
		job, err := d.job(text, clientSpec{state: t.TempDir(), holding: algorithm.PartyData{User: "7"}}, ledger, &log)
		if err == nil {
			err = job.Consented()
		}
		if err != nil {
			t.Fatal(err)
		}
		list := fmt.Sprintf(`"sessions":["%x"]`, forgotten)
		if strings.Contains(said.String(), "restored from an older copy") != forgets || strings.Contains(said.String(), list) != forgets {
			t.Errorf("forgets is %t:\n%s", forgets, &said)
		}
	}
}

// The folder may be the model of another state or a run of fedsim. A folder or state without releases is refused.
func TestServerRefusesAStart(t *testing.T) {
	dir, c, f := ending(t)
	model := filepath.Join(dir, party.CurrentLink)
	fresh, _, _, _ := begun(t)
	for want, err := range map[string]func() error{
		"start-from last: no finished session in": func() error { _, _, err := next(t.TempDir(), c, f, "last", ""); return err },
		"want the folder of a finished run":       func() error { _, _, err := next(t.TempDir(), c, f, dir, ""); return err },
		"starts from nothing; leave --start-from": func() error { _, _, err := next(fresh, c, f, "last", ""); return err },
		"say --rank": func() error {
			_, _, err := next(t.TempDir(), resolved(t, "algorithm=lfl-sgdmf rounds=5 rank=3"), f, model, "")
			return err
		},
		"say --algorithm lfl-sgdmf": func() error {
			_, _, err := next(t.TempDir(), resolved(t, "algorithm=ssp-c features=none"), f, model, "")
			return err
		},
	} {
		if got := err(); !cli.IsMisuse(got) || !strings.Contains(got.Error(), want) {
			t.Errorf("want %q: %v", want, got)
		}
	}
	elsewhere := t.TempDir()
	p, start, err := next(elsewhere, c, f, model, "")
	if err == nil {
		err = p.Begin(start)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err = party.KeepStart(elsewhere, nil); err != nil { // a state that has lost its copy
		t.Fatal(err)
	}
	if _, err = party.OpenSession(p.Public, elsewhere, nil); err == nil || !strings.Contains(err.Error(), "none is given") {
		t.Errorf("without the copy: %v", err)
	}
}

// An organisation that owns items starts them from its result of the session that the start names, wherever in its state
// that is by now. A result of another session is none.
func TestOrganisationStartsFromItsOwnItems(t *testing.T) {
	last := strings.Repeat("ab", 16)
	e := openedtest.Experiment(t, "algorithm=vfl-sgdmf rounds=2 accountant=rdp")
	e.Start = &algorithm.Start{Sessions: []algorithm.PastSession{{Session: strings.Repeat("cd", 16)}, {Session: last}}}
	log := zerolog.Nop()
	for where, want := range map[string]float64{"result": 0.5, "sessions/" + last + "/result": 0.5, "sessions/elsewhere/result": 0} {
		state := t.TempDir()
		dir := filepath.Join(state, where)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"item_embeddings", "user_embeddings"} {
			if err := results.WriteEmbeddings(dir, model.NewEmbeddings(name, model.Wrap(1, 1, []float64{0.5}), []string{"i1"})); err != nil {
				t.Fatal(err)
			}
		}
		write(t, string(mark(last)), dir, party.ResultSession)
		kept, err := party.ResultItems(state, e, &log)
		if err != nil || (len(kept) > 0) != (want > 0) {
			t.Fatalf("%s: %v, %v", where, kept, err)
		}
		if want > 0 && (len(kept) != 1 || kept[0].Name != "item_embeddings" || kept[0].Data()[0] != want) {
			t.Errorf("%s: %v", where, kept)
		}
	}
}

// mark is the content of a file that names a session.
func mark(session string) []byte { return []byte(`{"session":"` + session + `"}` + "\n") }
