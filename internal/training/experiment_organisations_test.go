package training_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/opened"
)

// TestOpenRefusesForOrganisations checks refusals that need the data: the number of parties, and the size of δ.
func TestOpenRefusesForOrganisations(t *testing.T) {
	for _, tt := range []struct{ settings, reason string }{
		{"algorithm=fmf-vfl parties=401", "at most 400"},
		{"algorithm=fmf-hfl parties=601", "at most 600"},
		{"algorithm=vfl-sgdmf parties=401", "at most 400"},
		{"algorithm=vfl-sgdmf delta=6e-5", "1/20000"},
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

// A delta below one of the 20,000 ratings of the published set is enough where a rating is the
// unit, and must not be checked against the 18,015 of them that are trained on.
func TestDeltaIsHeldAgainstTheUnit(t *testing.T) {
	if e := opened.Experiment(t, "algorithm=vfl-sgdmf delta=4.9e-5 accountant=rdp"); e.Privacy.Budget.Delta != 4.9e-5 || algorithm.UnitOf(e.Config) != dp.Rating {
		t.Errorf("delta is %v of unit %s", e.Privacy.Budget.Delta, algorithm.UnitOf(e.Config))
	}
}

// TestDeltaTellsNothingOfRatings checks that δ is checked without the number of a party's own ratings, which is private. With
// 3 users and 3 items there may be 9 ratings. A δ is refused, or not, at one in 9, with 7 ratings as with 8.
func TestDeltaTellsNothingOfRatings(t *testing.T) {
	all := []read.Rating{
		{User: "a", Item: "x", Value: 1}, {User: "a", Item: "y", Value: 2}, {User: "b", Item: "x", Value: 3}, {User: "b", Item: "z", Value: 4},
		{User: "c", Item: "y", Value: 5}, {User: "c", Item: "z", Value: 1}, {User: "c", Item: "x", Value: 2}, {User: "a", Item: "z", Value: 3},
	}
	refusal := func(ratings []read.Rating, delta string) string {
		c, err := config.Resolve(opened.Settings("algorithm=vfl-sgdmf parties=2 split.test=0.4 rating-min=1 rating-max=5 epsilon=5 accountant=rdp delta=" + delta))
		if err != nil {
			t.Fatal(err)
		}
		set, err := read.FromRatings("own", ratings, experiment.DataOptions(c))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = experiment.OpenSet(c, set); err != nil {
			return err.Error()
		}
		return ""
	}
	for delta, want := range map[string]string{"0.12": "may be up to 9", "0.11": ""} {
		more, fewer := refusal(all, delta), refusal(all[:7], delta)
		if more != fewer || !strings.Contains(more, want) || (want == "") != (more == "") {
			t.Errorf("delta %s: %q of 8 ratings, %q of 7, want %q in both", delta, more, fewer, want)
		}
	}
}
