package command

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/agreement"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/store"
)

// An owner says on whom its privacy may rest at the most: what the sums defend against, how many
// collude, and what is protected.
func TestOwnersFloors(t *testing.T) {
	const lfl = "algorithm=lfl-sgdmf rounds=5 epsilon=10 "
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte(strings.Join(strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z"), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode      string
		colluders float64
		unit      string
		settings  string
		want      string // in the refusal; "": there is none
	}{
		{"semi-honest", 0, "user", lfl, ""},
		{"semi-honest", 0, "user", lfl + "mode=active tolerance=0.3 secagg=real", ""},
		{"active", 0, "user", lfl, "--require-mode active: the session is in mode semi-honest"},
		{"active", 0, "user", lfl + "mode=active tolerance=0.3 secagg=real", ""},
		{"semi-honest", 0.1, "user", lfl + "colluders=0", "--min-colluders 0.1: the session reckons with a share of 0 "},
		{"semi-honest", 0.1, "user", lfl + "colluders=0.1", ""},
		{"semi-honest", 0.1, "user", lfl + "colluders=0.2", ""},
		{"semi-honest", 0.2, "user", lfl + "colluders=0.1", "share of 0.1"},
		{"semi-honest", 0, "rating", lfl, "--unit rating: the session protects unit=user"},
		{"semi-honest", 0, "any", lfl, ""},
		{"semi-honest", 0, "user", "algorithm=vfl-sgdmf accountant=rdp parties=20 rounds=2 delta=1e-6", "--unit user: the session protects unit=rating"},
		{"semi-honest", 0, "rating", "algorithm=vfl-sgdmf accountant=rdp parties=20 rounds=2 delta=1e-6", ""},
		{"semi-honest", 0, "any", "algorithm=vfl-sgdmf accountant=rdp parties=20 rounds=2 delta=1e-6", ""},
	} {
		cmd := &clientCmd{MaxEpsilon: 10, MaxDelta: 1e-5, RequireMode: c.mode, MinColluders: c.colluders, Unit: c.unit}
		owner, err := cmd.consent()
		if err != nil {
			t.Fatal(err)
		}
		config := resolved(t, c.settings)
		list := ""
		if strings.Contains(c.settings, "vfl") {
			list = users
		}
		f, err := facts(t.Context(), config, demo+"/items", list, 20)
		if err != nil {
			t.Fatal(err)
		}
		p, err := agree(config, f, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		err = owner.refuses(p)
		if (err != nil) != (c.want != "") || err != nil && (!cli.IsMisuse(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, share := range []float64{-0.1, 1, math.NaN()} {
		if owner, err := (&clientCmd{MaxEpsilon: 1, MaxDelta: 1e-5, MinColluders: share}).consent(); err == nil {
			t.Errorf("--min-colluders %v: %+v", share, owner)
		}
	}
}

// What is consented to is in one line of the log and in the state. The demonstration's epsilon of 10 rests
// on the noise of 14 clients (20, of whom 0.3 may be lost), of which an aggregator that lies leaves one share:
// at a fourteenth of the variance each of 5 rounds has the Gaussian loss of noise √14 times smaller,
// which by the accountant for Gaussian noise costs what is computed below.
func TestConsentIsLoggedAndKept(t *testing.T) {
	public := published(t, "algorithm=lfl-sgdmf contribution=all-ratings epsilon=10 rounds=5 tolerance=0.3 colluders=0 secagg=real")
	e, err := agreement.Open(public)
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	var said bytes.Buffer
	log := zerolog.New(&said)
	for range 2 { // a restart has nothing to add
		if err = consented(e, state, &log); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := store.Consents(state)
	if err != nil || len(kept) != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	c := kept[0]
	d2, _ := e.Schedule.First().Bounds()
	z := math.Sqrt(e.Schedule.First().Noise.Variance/14) / d2
	liar, err := dp.Problem{Events: []dp.Event{dp.Gaussian(z).Times(5)}, Delta: 1e-5, Accountant: dp.Exact}.Epsilon()
	if err != nil {
		t.Fatal(err)
	}
	if c.Algorithm != "lfl-sgdmf" || !(c.Privacy.Epsilon > 9.9 && c.Privacy.Epsilon <= 10) || c.Privacy.Unit != dp.User || c.Privacy.Relation != dp.ZeroOut ||
		c.Budget != 10 || c.Mode != "semi-honest" || c.Clients != 20 || c.Colluders != 0 || c.Tolerance != 0.3 || c.Rounds != 5 || c.At.IsZero() {
		t.Errorf("kept is %+v", c)
	}
	if c.EpsilonToLiar < 0.99*liar.Epsilon || c.EpsilonToLiar > 1.05*liar.Epsilon {
		t.Errorf("towards a liar epsilon is %v, want about %v", c.EpsilonToLiar, liar.Epsilon)
	}
	line, _, _ := strings.Cut(said.String(), "\n")
	var logged map[string]any
	if err = json.Unmarshal([]byte(line), &logged); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{
		"message": "consented to", "session": c.Session, "algorithm": "lfl-sgdmf", "mode": "semi-honest", "colluders": 0.0, "tolerance": 0.3, "rounds": 5.0, "clients": 20.0,
	} {
		if logged[field] != want {
			t.Errorf("the line has %s %v, want %v: %s", field, logged[field], want, line)
		}
	}
	for _, text := range []string{"epsilon=", "delta=1e-05", "unit=user", "relation=zero-out", "--require-mode active", "--min-colluders"} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("%q is not in the log\n%s", text, said.String())
		}
	}
	said.Reset()
	active, err := agreement.Open(published(t, "algorithm=lfl-sgdmf contribution=all-ratings epsilon=10 rounds=5 tolerance=0.3 secagg=real mode=active colluders=0.1"))
	if err == nil {
		err = consented(active, state, &log)
	}
	if err != nil || strings.Contains(said.String(), "warn") || strings.Contains(said.String(), "lying") {
		t.Errorf("%v, %s", err, said.String())
	}
	if kept, err = store.Consents(state); err != nil || len(kept) != 2 {
		t.Errorf("%d are kept, %v", len(kept), err)
	}
}
