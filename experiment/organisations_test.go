package experiment_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/opened"
)

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
		c, err := config.Resolve(opened.Settings("data=synthetic:small " + tt.settings))
		if err != nil {
			t.Errorf("%s: refused without the data: %v", tt.settings, err)
			continue
		}
		_, err = experiment.Open(t.Context(), c, nil)
		var config *config.Error
		if err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.settings, err, tt.reason)
		} else if !errors.As(err, &config) {
			t.Errorf("%s: %v is no config.Error, so the command would end with 1 instead of 2", tt.settings, err)
		}
	}
	// As many parties as there are items, or users, may be.
	for settings, want := range map[string]int{"algorithm=fmf-vfl parties=400": 400, "algorithm=fmf-hfl parties=600": 600} {
		if e := opened.Experiment(t, settings); e.Cohort.Clients != want {
			t.Errorf("%s: %d parties", settings, e.Cohort.Clients)
		}
	}
}

// A delta below one of 18,015 ratings is enough where a rating is the unit.
func TestDeltaIsHeldAgainstTheUnit(t *testing.T) {
	if e := opened.Experiment(t, "algorithm=vfl-sgdmf delta=5e-5 accountant=rdp"); e.Privacy.Budget.Delta != 5e-5 || algorithm.UnitOf(e.Config) != dp.Rating {
		t.Errorf("delta is %v of unit %s", e.Privacy.Budget.Delta, algorithm.UnitOf(e.Config))
	}
}
