package training_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/results"
)

// repeatable are experiments whose configuration must come back from their
// config.yaml: all algorithms, and every choice that depends on another.
var repeatable = []string{
	"", "epsilon=inf", "noise=none", "noise=replace rank=3", "contribution=all-ratings epsilon=3", "rating-max=6 rating-min=0.5",
	"algorithm=sgd-mf", "algorithm=fmf-lfl",
	"algorithm=vfl-sgdmf", "algorithm=vfl-sgdmf epsilon=inf", "algorithm=vfl-sgdmf noise=none accountant=rdp", "algorithm=vfl-sgdmf parties=1 accountant=rdp",
	"algorithm=vfl-sgdmf unit=user item-steps=7 accountant=rdp", "algorithm=vfl-sgdmf unit=user parties=12 local-steps=2 accountant=rdp",
	"algorithm=vfl-sgdmf clipping=both clip-norm=2 epsilon=1 rank=2 accountant=rdp", "algorithm=vfl-sgdmf accountant=rdp model.user-rate=0.01",
	"algorithm=vfl-sgdmf partition=category parties=3 accountant=rdp",
	"algorithm=hfl-sgdmf accountant=rdp", "algorithm=hfl-sgdmf parties=1 sampling-rate=1",
	"algorithm=hfl-sgdmf train=both clipping=gradient dropout=0.2 accountant=rdp",
	"algorithm=hfl-synsgd accountant=rdp", "algorithm=hfl-synsgd train=items clip-ratings=3 accountant=rdp",
	"algorithm=dpals", "algorithm=dpals statistics.budgeting=tail noise=replace", "algorithm=ada-dpals accountant=gdp-skellam", "algorithm=dp-cmf epsilon=1",
	"algorithm=ssp-c", "algorithm=ssp-c features=none", "algorithm=ssp-c encoder.optimiser=adam", "algorithm=am-ssp encoder.optimiser=exact",
	"algorithm=dp-cmf statistics.priors=fixed", "algorithm=dp-cmf statistics.user-feature-weight=0", "algorithm=ada-dpals statistics.bias-first=yes", "algorithm=ada-dpals statistics.top-items=0.2", "algorithm=ssp-c statistics.top-items=0.2 statistics.choose-by=weights", "algorithm=ssp-c feedback=implicit rank=3", "algorithm=ssp-c epsilon=inf", "algorithm=ssp-i statistics.resample=5",
	"algorithm=am-ssp", "algorithm=am-ssp-ids statistics.normalise=global", "algorithm=ssp-convex statistics.loss=logistic", "algorithm=ssp-convex features=year", "algorithm=private-item-bias", "algorithm=private-item-bias feedback=implicit",
	"algorithm=dpsgd statistics.budgeting=tail", "algorithm=ada-dpsgd statistics.bias-first=yes", "algorithm=ada-dpsgd epsilon=inf", "algorithm=am-dpsgd", "algorithm=am-dpsgd features=none", "algorithm=dp-sgd-mf epsilon=2",
	"algorithm=fmf-vfl", "algorithm=fmf-vfl unit=user parties=1", "algorithm=fmf-hfl", "algorithm=fmf-hfl parties=2",
}

// leftOpen are keys that a setting makes irrelevant, and that stay at auto for it.
var leftOpen = map[string]string{
	"statistics.loss=logistic": "statistics.loss-width",
	"features=none":            "encoder.steps statistics.user-feature-weight",
	"encoder.optimiser=adam":   "statistics.decay statistics.start-spread",
	"encoder.optimiser=exact":  "statistics.item-ridge statistics.item-prior encoder.steps encoder.ids encoder.start-norm encoder.rate",
	"feedback=implicit": "statistics.mean-cap statistics.clip-rating statistics.clip-bias statistics.user-bias-ridge statistics.bias-ridge statistics.user-feature-weight " +
		"statistics.shares.mean statistics.shares.bias",
}

// staysOpen reports whether a key stays at auto with the settings.
func staysOpen(settings, key string) bool {
	for setting := range strings.FieldsSeq(settings) {
		if slices.Contains(strings.Fields(leftOpen[setting]), key) {
			return true
		}
	}
	return false
}

// resolved is a configuration of the small data with some settings, key=value.
func resolved(t *testing.T, settings string) config.Config {
	t.Helper()
	c, err := config.Resolve(opened.Settings("data=synthetic:small-80 " + settings))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// written are the settings of a configuration that went through a file.
func written(t *testing.T, c config.Config) []config.Setting {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, c.YAML(), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := config.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestConfigOfARunRepeatsIt checks that config.yaml of a run holds the run's configuration. It leaves nothing open that the
// result depends on, and causes no warning that the run did not cause.
func TestConfigOfARunRepeatsIt(t *testing.T) {
	for i, settings := range repeatable {
		t.Run(settings, func(t *testing.T) {
			if i%4 != 2 {
				effort.NotShort(t, "a quarter of the settings stands for all")
			}
			t.Parallel()
			first := resolved(t, settings)
			e, err := experiment.Open(t.Context(), first, nil)
			if err != nil {
				t.Fatal(err)
			}
			list := written(t, e.Config)
			c, err := config.Resolve(list)
			if err != nil {
				t.Fatalf("its own configuration is refused: %v", err)
			}
			again, err := experiment.Open(t.Context(), c, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e.Config, again.Config); diff != "" {
				t.Errorf("configuration (-first +again):\n%s", diff)
			}
			compare(t, e, again)
			if diff := cmp.Diff(algorithm.Warnings(first), algorithm.Warnings(c)); diff != "" {
				t.Errorf("warnings (-first +again):\n%s", diff)
			}
			checkOpen(t, settings, c, list)
		})
	}
}

// compare demands that two experiments are the same run.
func compare(t *testing.T, e, again *experiment.Experiment) {
	t.Helper()
	if !reflect.DeepEqual(e.Schedule, again.Schedule) || e.Privacy.Budget != again.Privacy.Budget || e.Session() != again.Session() {
		t.Errorf("schedule %+v, again %+v", e.Schedule, again.Schedule)
	}
	if diff := cmp.Diff(results.ManifestOf(e), results.ManifestOf(again)); diff != "" {
		t.Errorf("manifest (-first +again):\n%s", diff)
	}
	if !e.About().Clients.Organisations() {
		return
	}
	if noiser, ok := e.Instance().(algorithm.LocalNoiser); ok {
		if diff := cmp.Diff(noiser.LocalSteps(), again.Instance().(algorithm.LocalNoiser).LocalSteps()); diff != "" {
			t.Errorf("noised steps (-first +again):\n%s", diff)
		}
	}
	// Trainers hold how a party trains, and what it owns.
	if !reflect.DeepEqual(trainers(t, e), trainers(t, again)) {
		t.Error("the parties own something else, or train otherwise")
	}
}

func trainers(t *testing.T, e *experiment.Experiment) []algorithm.Trainer {
	t.Helper()
	side, err := e.Instance().ClientSide()
	if err != nil {
		t.Fatal(err)
	}
	return side.Trainers()
}

// checkOpen demands that what is left at auto has no effect, and that what is known to
// have none is left so.
func checkOpen(t *testing.T, settings string, c config.Config, list []config.Setting) {
	t.Helper()
	idle := algorithm.KeysWithoutEffect(c)
	for _, s := range list {
		without := slices.Contains(idle, config.Find(s.Key))
		if s.Value == "auto" && !without && s.Key != algorithm.SplitSeed.Name { // auto is the seed beside it, of this file as of another
			t.Errorf("%s is left at auto, and has an effect", s.Key)
		}
		if staysOpen(settings, s.Key) && !without {
			t.Errorf("%s has an effect with %s", s.Key, settings)
		}
	}
}
