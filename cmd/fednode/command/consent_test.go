package command

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/store"
)

// published returns a server's public text of an experiment for the demonstration's items.
func published(t *testing.T, settings string) *agreement.Public {
	t.Helper()
	return publishedTo(t, settings, 20)
}

func publishedTo(t *testing.T, settings string, clients int) *agreement.Public {
	t.Helper()
	config := resolved(t, settings)
	f, err := facts(t.Context(), config, demo+"/items", "", clients)
	if err != nil {
		t.Fatal(err)
	}
	p, err := agree(config, f, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A server may ask for whatever it likes; the client decides what it gets.
func TestClientDecidesWhatASessionMayCost(t *testing.T) {
	agreed := filepath.Join(t.TempDir(), "agreed.yaml")
	if err := os.WriteFile(agreed, []byte("algorithm: lfl-sgdmf\nepsilon: 5\nrounds: 5\ntolerance: 0.3\nmode: active\nsecagg: real\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const same = "algorithm=lfl-sgdmf epsilon=5 rounds=5 tolerance=0.3 mode=active secagg=real "
	for _, c := range []struct {
		epsilon        float64
		file, settings string
		want           string // in the refusal; "": there is none
	}{
		{10, "", "algorithm=lfl-sgdmf epsilon=10 rounds=5", ""},
		{10, "", "algorithm=lfl-sgdmf epsilon=10.5 rounds=5", "epsilon=10.5, which is more"},
		{10, "", "algorithm=lfl-sgdmf epsilon=inf rounds=5", "without noise"},
		{10, "", "algorithm=fmf-lfl rounds=5", "without noise"},
		{math.Inf(1), "", "algorithm=fmf-lfl rounds=5", ""},
		{10, "", "algorithm=lfl-sgdmf epsilon=10 rounds=5 delta=1e-5", ""},
		{10, "", "algorithm=lfl-sgdmf epsilon=10 rounds=5 delta=0.04", "delta=0.04, which is more"},
		{10, agreed, same, ""},
		{10, agreed, same + "dropout=0.2 deployment.gather-s=7", "deployment.gather-s"},
		{10, agreed, same + "dropout=0.2 workers=1", ""}, // which concern no deployment
		{10, agreed, same + "epsilon=4", "other in epsilon"},
		{10, agreed, same + "mode=semi-honest", "other in mode"},
		{10, agreed, same + "tolerance=0.2", "other in tolerance"},
		{10, agreed, same + "delta=1e-6", "other in delta"},
		{4, agreed, same, "--max-epsilon 4"},
	} {
		given := &consent{MaxEpsilon: c.epsilon, MaxDelta: 1e-5, Experiment: c.file}
		err := given.read()
		if err == nil { // else the owner's experiment is beyond the owner's limits
			err = given.refuses(published(t, c.settings))
		}
		if usage := cli.IsMisuse(err); (err != nil) != (c.want != "") || err != nil && (!usage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("max-epsilon %v, experiment %q, session of %s: %v; want %q", c.epsilon, filepath.Base(c.file), c.settings, err, c.want)
		}
	}
	for _, epsilon := range []float64{0, -1, math.NaN()} {
		if given := (&consent{MaxEpsilon: epsilon, MaxDelta: 1e-5}); given.read() == nil {
			t.Errorf("--max-epsilon %v: %+v", epsilon, given)
		}
	}
	for _, delta := range []float64{0, 1, math.NaN()} {
		if given := (&consent{MaxEpsilon: 1, MaxDelta: delta}); given.read() == nil {
			t.Errorf("--max-delta %v: %+v", delta, given)
		}
	}
}

// A refusal reaches the session as one, and no rating is opened for it.
func TestRefusedSessionIsNotTrainedFor(t *testing.T) {
	text, err := published(t, "algorithm=fmf-lfl rounds=5").Encode()
	if err != nil {
		t.Fatal(err)
	}
	d := &clientHost{clientCmd: &clientCmd{Data: "no such folder", consent: consent{MaxEpsilon: 10}}}
	for range 2 { // from what is kept, too
		job, err := d.job(text, clientSpec{state: t.TempDir()}, nil, nil) // for which there are no data to train on
		if err != nil {
			t.Fatal(err)
		}
		if job.Refusal == nil || !strings.Contains(job.Refusal.Error(), "without noise") {
			t.Errorf("a session that the owner excludes: %v", job.Refusal)
		}
	}
}

// The consent of a session is kept once the ledger has accepted the session, which asks for it in between: opening the session
// and making the party keep nothing.
func TestConsentIsKeptAfterTheLedgerAccepts(t *testing.T) {
	t.Parallel()
	text, err := published(t, "algorithm=lfl-sgdmf rounds=5 epsilon=5").Encode()
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	at := clientSpec{state: t.TempDir(), holding: algorithm.PartyData{User: "7"}}
	d := &clientHost{clientCmd: &clientCmd{Data: demo + "/ratings.csv", User: "7", State: at.state, consent: consent{MaxEpsilon: 10}}}
	job, err := d.job(text, at, nil, &log)
	if err == nil {
		_, err = job.Train(t.Context())
	}
	if kept, failed := store.Consents(at.state); err != nil || failed != nil || len(kept) != 0 {
		t.Errorf("%v, %v; before the ledger was asked there are consents: %+v", err, failed, kept)
	}
	if err = job.Consented(); err != nil {
		t.Fatal(err)
	}
	if kept, failed := store.Consents(at.state); failed != nil || len(kept) != 1 {
		t.Errorf("%+v, %v; want the consent", kept, failed)
	}
}

// A server that lies describes the session to which the owner has agreed once more, with another budget. The client takes no
// part, and the record stays true. It takes part in the session as it was, also after a restart.
func TestSessionIsNotDescribedTwice(t *testing.T) {
	first := published(t, "algorithm=lfl-sgdmf rounds=5 epsilon=5")
	second := published(t, "algorithm=lfl-sgdmf rounds=5 epsilon=9")
	second.Session = first.Session
	log := zerolog.Nop()
	at := clientSpec{state: t.TempDir(), holding: algorithm.PartyData{User: "7"}}
	for n, c := range []struct {
		public *agreement.Public
		want   string
	}{{first, ""}, {second, "has another description"}, {first, ""}} {
		text, err := c.public.Encode()
		if err != nil {
			t.Fatal(err)
		}
		job, err := (&clientHost{clientCmd: &clientCmd{Data: demo + "/ratings.csv", consent: consent{MaxEpsilon: 10, MaxDelta: 1e-5}}}).job(text, at, nil, &log)
		if err != nil {
			t.Fatal(err)
		}
		if err = job.Refusal; (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("description %d: %v; want %q", n+1, err, c.want)
		}
		if err == nil {
			if err = job.Consented(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept, err := store.Consents(at.state); err != nil || len(kept) != 1 || kept[0].Budget != 5 {
		t.Errorf("%+v, %v; want the consent to an epsilon of 5", kept, err)
	}
}
