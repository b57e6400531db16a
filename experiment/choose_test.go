package experiment

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// chosen is what the design and the FMF paper (section 4.3) have for each
// algorithm on the small set: 600 users, 400 items, 18,015 training ratings.
var chosen = []struct {
	settings                           string
	rounds, localSteps, parties, theta float64
	unit, accountant, noise, secagg    string
	epsilon, delta, colluders          float64
	train                              string // "" where there is no choice
	clients, coordinates               int
}{
	{"algorithm=vfl-sgdmf", 100, 10, 10, 0, "rating", "pld", "own", "ideal", 10, 5e-6, 0.05, "", 10, 601},
	{"algorithm=vfl-sgdmf accountant=rdp parties=1", 100, 10, 1, 0, "rating", "rdp", "own", "none", 10, 5e-6, 0, "", 1, 601},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user", 100, 10, 10, 5, "user", "rdp", "own", "ideal", 10, 1e-5, 0.05, "", 10, 601},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user parties=1", 100, 10, 1, 10, "user", "rdp", "own", "none", 10, 1e-5, 0, "", 1, 601},
	{"algorithm=vfl-sgdmf accountant=rdp unit=user parties=11 rank=3", 100, 10, 11, 2, "user", "rdp", "own", "ideal", 10, 1e-5, 0.05, "", 11, 1801},
	{"algorithm=hfl-sgdmf", 100, 10, 10, 10, "user", "pld", "own", "ideal", 10, 1e-5, 0.05, "items", 10, 401},
	{"algorithm=hfl-sgdmf accountant=rdp parties=11", 100, 10, 11, 10, "user", "rdp", "own", "ideal", 10, 1e-5, 0.05, "items", 11, 401},
	{"algorithm=hfl-sgdmf accountant=rdp parties=1 colluders=0", 100, 10, 1, 10, "user", "rdp", "own", "none", 10, 1e-5, 0, "items", 1, 401},
	{"algorithm=hfl-synsgd accountant=rdp", 1000, 1, 10, 10, "user", "rdp", "own", "ideal", 10, 1e-5, 0.05, "both", 10, 401},
	{"algorithm=hfl-synsgd epsilon=inf", 1000, 1, 10, 10, "user", "pld", "none", "ideal", math.Inf(1), 1e-5, 0.05, "both", 10, 401},
	{"algorithm=fmf-vfl", 100, 10, 10, 0, "rating", "pld", "none", "ideal", math.Inf(1), 5e-6, 0.05, "", 10, 601},
	{"algorithm=fmf-hfl", 100, 10, 10, 10, "user", "pld", "none", "ideal", math.Inf(1), 1e-5, 0.05, "items", 10, 401},
}

func TestOpenChoosesForOrganisations(t *testing.T) {
	for _, tt := range chosen {
		t.Run(tt.settings, func(t *testing.T) {
			t.Parallel()
			e := open(t, tt.settings)
			c := e.Config
			for _, n := range []struct {
				what      string
				got, want Number
			}{
				{"rounds", c.Rounds, Fixed(tt.rounds)}, {"local-steps", c.LocalSteps, Fixed(tt.localSteps)}, {"parties", c.Parties, Fixed(tt.parties)},
				{"clip-ratings", c.ClipRatings, Fixed(tt.theta)}, {"epsilon", c.Epsilon, Fixed(tt.epsilon)}, {"delta", c.Delta, Fixed(tt.delta)},
				{"dropout", c.Dropout, Fixed(0)}, {"colluders", c.Colluders, Fixed(tt.colluders)},
			} {
				if n.got != n.want {
					t.Errorf("%s is %v, want %v", n.what, n.got, n.want)
				}
			}
			if want := 20000. / 600 / 400; math.Abs(c.Model.Density.Value-want) > 1e-12 { // as the set is listed
				t.Errorf("density is %v, want %v", c.Model.Density, want)
			}
			for _, w := range []struct{ what, got, want string }{
				{"unit", c.Unit, tt.unit}, {"accountant", c.Accountant, tt.accountant}, {"noise", c.Noise, tt.noise}, {"secagg", c.Secagg, tt.secagg},
			} {
				if w.got != w.want {
					t.Errorf("%s is %s, want %s", w.what, w.got, w.want)
				}
			}
			if tt.train != "" && c.Train != tt.train {
				t.Errorf("train is %s, want %s", c.Train, tt.train)
			}
			if e.Cohort.Clients != tt.clients || len(e.parts) != tt.clients {
				t.Errorf("%d clients, %d parts, want %d", e.Cohort.Clients, len(e.parts), tt.clients)
			}
			if e.Steps.First().Len != tt.coordinates || e.Steps.First().MaxNonZero != tt.coordinates {
				t.Errorf("the release has %d coordinates, want the shared embeddings and a weight, %d", e.Steps.First().Len, tt.coordinates)
			}
			checkNoise(t, e)
		})
	}
}

// checkNoise holds the noise of the release against the configuration.
func checkNoise(t *testing.T, e *Experiment) {
	t.Helper()
	n, c := e.Steps.First().Noise, e.Config
	if !c.Private() {
		if n != (protocol.Noise{}) || e.Privacy.Run != nil || !math.IsInf(e.Privacy.Budget.Epsilon, 1) {
			t.Errorf("without privacy the noise is %+v, the run costs %v of %v", n, e.Privacy.Run, e.Privacy.Budget)
		}
		return
	}
	want := protocol.Noise{Kind: protocol.Own, Multiplier: n.Multiplier, SamplingRate: c.SamplingRate, Steps: int(c.LocalSteps.Value),
		Spread: c.Algorithm == VFLSGDMF && c.Unit == "user"} // a user's ratings lie with all owners of items
	if n != want || !(n.Multiplier > 0) {
		t.Errorf("the noise is %+v, want %+v with a multiplier", n, want)
	}
}

// A density is read off no ratings: where none is published it is a guess.
func TestDensityOfDataThatIsNotPublished(t *testing.T) {
	data := filepath.Join(t.TempDir(), "ratings.csv")
	text := "user,item,rating\n"
	for i := range 40 {
		text += string(rune('a'+i/5)) + "," + string(rune('a'+i%5)) + ",3\n"
	}
	if err := os.WriteFile(data, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	e := open(t, "algorithm=fmf-vfl parties=2 data="+data)
	if e.Config.Model.Density != Fixed(0.01) {
		t.Errorf("density is %v, want 0.01", e.Config.Model.Density)
	}
	// Nor is the default of δ, from which the noise follows: 8 users, 5 items.
	if e.publicUnits() != 40 || e.units() == 40 {
		t.Errorf("δ is for %d ratings, want all 40 pairs; %d are in training", e.publicUnits(), e.units())
	}
	if e := open(t, "algorithm=fmf-vfl model.density=0.5"); e.silo.Density != 0.5 {
		t.Errorf("density is %v, want the given 0.5", e.silo.Density)
	}
}

// The more noise, the smaller the steps; rates that are given stay.
func TestRatesFallWithNoise(t *testing.T) {
	for _, a := range []string{"vfl-sgdmf", "hfl-sgdmf", "hfl-synsgd"} {
		t.Run(a, func(t *testing.T) {
			t.Parallel()
			item, user := 0.0, 0.0
			for _, epsilon := range []string{"1", "10", "100", "inf"} {
				m := open(t, "accountant=rdp algorithm="+a+" epsilon="+epsilon).Config.Model
				if !(m.ItemRate.Value > item) || !(m.UserRate.Value >= user) || !(m.UserRate.Value > 0) || math.IsInf(m.ItemRate.Value+m.UserRate.Value, 0) {
					t.Errorf("epsilon %s: rates %v and %v, after %v and %v with more noise", epsilon, m.UserRate, m.ItemRate, user, item)
				}
				user, item = m.UserRate.Value, m.ItemRate.Value
			}
			given := open(t, "accountant=rdp model.user-rate=0.125 model.item-rate=0.25 algorithm="+a)
			if m := given.Config.Model; m.UserRate != Fixed(0.125) || m.ItemRate != Fixed(0.25) || given.silo.UserRate != 0.125 || given.silo.ItemRate != 0.25 {
				t.Errorf("rates %v and %v were given 0.125 and 0.25", m.UserRate, m.ItemRate)
			}
		})
	}
}

// What only the data can tell: how many parties there may be, how small δ must be.
func TestOpenRefusesForOrganisations(t *testing.T) {
	for _, tt := range []struct{ settings, reason string }{
		{"algorithm=fmf-vfl parties=401", "at most 400"},
		{"algorithm=fmf-hfl parties=601", "at most 600"},
		{"algorithm=vfl-sgdmf parties=401", "at most 400"},
		{"algorithm=vfl-sgdmf delta=6e-5", "1/18015"},
		{"algorithm=vfl-sgdmf unit=user delta=0.002", "1/600"},
		{"algorithm=hfl-sgdmf delta=0.002", "1/600"},
		{"algorithm=hfl-sgdmf parties=3 tolerance=0.9 colluders=0.5", "lower the tolerance or the colluders"},
		{"algorithm=vfl-sgdmf parties=2 colluders=0.9", "lower the tolerance or the colluders"},
		{"algorithm=hfl-sgdmf accountant=rdp epsilon=1e-7", "epsilon 1e-07 over 1000 steps: "},
		{"algorithm=vfl-sgdmf unit=user accountant=rdp epsilon=1e-7 item-steps=5", "epsilon 1e-07 over 10050 steps: "},
		{"algorithm=vfl-sgdmf accountant=rdp rank=1000 network.stage-timeout-s=1.5", "give more time or bandwidth"},
	} {
		c, err := Resolve(set("data=synthetic:small " + tt.settings))
		if err != nil {
			t.Errorf("%s: refused without the data: %v", tt.settings, err)
			continue
		}
		_, err = Open(t.Context(), c, nil)
		var config *ConfigError
		if err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.settings, err, tt.reason)
		} else if !errors.As(err, &config) {
			t.Errorf("%s: %v is no ConfigError, so the command would end with 1 instead of 2", tt.settings, err)
		}
	}
	// As many parties as there are items, or users, may be.
	for settings, want := range map[string]int{"algorithm=fmf-vfl parties=400": 400, "algorithm=fmf-hfl parties=600": 600} {
		if e := open(t, settings); len(e.parts) != want {
			t.Errorf("%s: %d parties", settings, len(e.parts))
		}
	}
}

// A delta below one of 18,015 ratings is enough where a rating is the unit.
func TestDeltaIsHeldAgainstTheUnit(t *testing.T) {
	if e := open(t, "algorithm=vfl-sgdmf delta=5e-5 accountant=rdp"); e.Privacy.Budget.Delta != 5e-5 || e.Config.unit() != dp.Rating {
		t.Errorf("delta is %v of unit %s", e.Privacy.Budget.Delta, e.Config.unit())
	}
}
