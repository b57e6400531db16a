package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/store"
)

// An owner sets limits on what its privacy may rest on: the attacks that sums defend against, the
// number of colluders, and the unit that is protected.
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
		owner := &consent{MaxEpsilon: 10, MaxDelta: 1e-5, RequireMode: c.mode, MinColluders: c.colluders, Unit: c.unit}
		if err := owner.read(); err != nil {
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
		if owner := (&consent{MaxEpsilon: 1, MaxDelta: 1e-5, MinColluders: share}); owner.read() == nil {
			t.Errorf("--min-colluders %v: %+v", share, owner)
		}
	}
}

// Where inputs are verified, all parties' terms and the owner's record say so.
func TestVerifiedInputsAreInTheTerms(t *testing.T) {
	const settings = "algorithm=lfl-sgdmf contribution=all-ratings epsilon=10 rounds=5 secagg=real mode=active"
	for given, want := range map[string]string{"": "active", " verify-inputs=yes": "active, inputs are proved"} {
		e, err := agreement.Open(published(t, settings+given))
		if err != nil {
			t.Fatal(err)
		}
		c, err := consentTo(e)
		if agreed := terms(e); err != nil || c.Mode != want || agreed.VerifyInputs != (given != "") || agreed.Validate() != nil {
			t.Errorf("%s: mode %q, terms %+v, %v, %v", given, c.Mode, agreed, agreed.Validate(), err)
		}
	}
}

// A client logs what it consents to in one line, and keeps it in its state.
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
		if err = consented(e, nil, state, &consent{MaxEpsilon: 10}, &log); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := store.Consents(state)
	if err != nil || len(kept) != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	c := kept[0]
	if c.Algorithm != "lfl-sgdmf" || !(c.Privacy.Epsilon > 9.9 && c.Privacy.Epsilon <= 10) || c.Privacy.Unit != dp.User || c.Privacy.Relation != dp.ZeroOut ||
		c.Budget != 10 || c.Mode != "semi-honest" || c.Clients != 20 || c.Colluders != 0 || c.Tolerance != 0.3 || c.Rounds != 5 || c.At.IsZero() {
		t.Errorf("kept is %+v", c)
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
		err = consented(active, nil, state, &consent{MaxEpsilon: 10}, &log)
	}
	if err != nil || strings.Contains(said.String(), "warn") || strings.Contains(said.String(), "lying") {
		t.Errorf("%v, %s", err, said.String())
	}
	if kept, err = store.Consents(state); err != nil || len(kept) != 2 {
		t.Errorf("%d are kept, %v", len(kept), err)
	}
}

// An aggregator that shows a client only itself, and says that all N survived, gets the surplus of the client's noise
// back in the clear: of V there remains V/(N-c). The expected ε is solved here from the formula of Balle and Wang
// for Gaussian noise, whose μ² is the sum of D2²·(N-c)/V over the releases. Skellam noise costs slightly more.
func TestEpsilonTowardsALyingAggregator(t *testing.T) {
	t.Parallel()
	const demonstration = "algorithm=lfl-sgdmf contribution=all-ratings epsilon=10 rounds=5 tolerance=0.3 secagg=real "
	for _, c := range []struct {
		settings string
		clients  int
		honest   float64 // N-c: one client keeps noise of the variance V/(N-c)
		rounds   int     // in which a client takes part, where the schedule has one step
	}{
		{demonstration + "colluders=0", 20, 20, 5},
		{demonstration + "colluders=0.05", 20, 19, 5},
		{demonstration + "colluders=0 cohort.size=10", 20, 10, 3},
		{"algorithm=ssp-c epsilon=1 tolerance=0.5 colluders=0 secagg=real", 610, 610, 0},
	} {
		e, err := agreement.Open(publishedTo(t, c.settings, c.clients))
		if err != nil {
			t.Fatal(err)
		}
		got, err := consentTo(e)
		if err != nil {
			t.Fatal(err)
		}
		square := 0.0
		for _, step := range e.Schedule {
			for _, r := range step.Releases {
				d2, _ := r.Bounds()
				square += float64(cmp.Or(c.rounds, step.Rounds)) * d2 * d2 * c.honest / r.Noise.Variance
			}
		}
		oracle := gaussianEpsilon(math.Sqrt(square), e.Privacy.Budget.Delta)
		if got.EpsilonToLiar < oracle || got.EpsilonToLiar > 1.001*oracle {
			t.Errorf("%s: towards a liar epsilon is %v, want %v", c.settings, got.EpsilonToLiar, oracle)
		}
	}
}

// gaussianEpsilon solves Φ(μ/2 - ε/μ) - e^ε·Φ(-μ/2 - ε/μ) = δ (Balle and Wang 2018, theorem 8) by bisection.
func gaussianEpsilon(mu, delta float64) float64 {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	lo, hi := 0.0, 500.0
	for range 100 {
		mid := (lo + hi) / 2
		if phi(mu/2-mid/mu)-math.Exp(mid)*phi(-mu/2-mid/mu) > delta {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// An experiment of the owner's own that does not keep the owner's limits is found out before the client enrols: no session of it could
// ever be taken up. Values that only a session fixes are left to the session.
func TestOwnExperimentKeepsTheLimits(t *testing.T) {
	for settings, want := range map[string]string{
		"epsilon: 10\nmode: active\ncolluders: 0.2\nunit: user\n": "",
		"mode: active\n":                                     "",
		"epsilon: 11\nmode: active\n":                        "--max-epsilon 10: --experiment FILE has a budget of epsilon=11",
		"epsilon: inf\nmode: active\n":                       "has sums without noise",
		"delta: 0.001\nmode: active\n":                       "--max-delta 1e-05: --experiment FILE counts its epsilon at delta=0.001",
		"mode: semi-honest\n":                                "--require-mode active: --experiment FILE is in mode semi-honest",
		"mode: active\ncolluders: 0.1\n":                     "--min-colluders 0.2: --experiment FILE reckons with a share of 0.1",
		"algorithm: vfl-sgdmf\nunit: rating\nmode: active\n": "--unit user: --experiment FILE protects unit=rating",
	} {
		file := filepath.Join(t.TempDir(), "experiment.yaml")
		if err := os.WriteFile(file, []byte("secagg: real\n"+settings), 0o600); err != nil {
			t.Fatal(err)
		}
		err := (&consent{MaxEpsilon: 10, MaxDelta: 1e-5, RequireMode: "active", MinColluders: 0.2, Unit: "user", Experiment: file}).read()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(strings.ReplaceAll(err.Error(), file, "FILE"), want) {
			t.Errorf("%q: %v; want %q", settings, err, want)
		}
	}
}
