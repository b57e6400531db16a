package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// effects says which algorithms a setting means something to: with any other it
// must be called out. Device stands for parties that are users, vertical for
// owners of items, horizontal for owners of users, central for one place, statistics for
// users who sum them, and bias for those of item biases alone.
var effects = []struct {
	setting string // of a value other than the default
	forms   string
}{
	{"rounds=7", "device vertical horizontal statistics"},
	{"dropout=0.15", "device vertical horizontal statistics bias"},
	{"dropout-at=share", "device vertical horizontal statistics bias"},
	{"leave=0.01", "device vertical horizontal statistics bias"},
	{"away=0.01", "device vertical horizontal statistics bias"},
	{"away-rounds=2", "device vertical horizontal statistics bias"},
	{"tolerance=0.4", "device vertical horizontal statistics bias"},
	{"colluders=0.1", "device vertical horizontal statistics bias"},
	{"sit-out=0.1", "device vertical horizontal statistics bias"},
	{"baselines=quick", "device vertical horizontal statistics bias"},
	{"clip-norm=2", "device vertical horizontal"},
	{"noise-draw=client", "device statistics bias"},
	{"contribution=all-ratings", "device"},
	{"model.learning-rate=0.01", "device central"},
	{"model.epochs=3", "central"},
	{"model.fit-steps=20", "device horizontal central"},
	{"model.fit-ridge=2", "device horizontal central"},
	{"parties=3", "vertical horizontal"},
	{"local-steps=1", "vertical horizontal"},
	{"sampling-rate=0.1", "vertical horizontal"},
	{"clipping=both", "vertical horizontal"},
	{"model.user-rate=0.01", "vertical horizontal"},
	{"model.item-rate=0.01", "vertical horizontal"},
	{"model.density=0.02", "vertical horizontal"},
	{"partition=category", "vertical"},
	{"item-steps=5", "vertical"},
	{"train=both", "horizontal"},
	{"model.fine-tune=3", "horizontal"},
	{"model.fine-tune-rate=0.02", "horizontal"},
	{"model.local-passes=3", "horizontal"},
	{"unit=user clip-ratings=4", "vertical horizontal"},
	{"rank=3", "device vertical horizontal central statistics"},
	{"rating-max=5", "device vertical horizontal central statistics bias"},
	{"model.start-mean=3", "device vertical horizontal central"},
	{"model.start-spread=0.02", "device vertical horizontal central"},
	{"split.validation=0.1", "device vertical horizontal central statistics bias"},
	{"seed=2", "device vertical horizontal central statistics bias"},
	{"workers=2", "device vertical horizontal central statistics bias"},
	{"deployment.stage-timeout-s=30", ""}, // with any in a deployment, in a simulation with none
	{"deployment.gather-s=0", ""},
	{"features=genres", "dp-cmf ssp-c ssp-i am-ssp ssp-convex"},
	{"statistics.gramian=one", "statistics"},
	{"statistics.budgeting=weights", "statistics bias"},
	{"statistics.exponent=0.5", "ada-dpals dp-cmf ssp-c ssp-i am-ssp ssp-convex private-item-bias"},
	{"statistics.per-user=7", "dpals"},
	{"statistics.count-cap=7", "ada-dpals am-ssp"},
	{"statistics.shares.counts=0.02", "ada-dpals am-ssp"},
	{"statistics.mean-cap=9", "statistics bias"},
	{"statistics.shares.mean=0.02", "statistics bias"},
	{"statistics.bias-first=yes", "statistics"},
	{"statistics.clip-user=2", "statistics"},
	{"statistics.clip-rating=2", "dpals ada-dpals dp-cmf ssp-c ssp-i am-ssp"},
	{"statistics.clip-bias=1", "dp-cmf ssp-c ssp-i ssp-convex private-item-bias"},
	{"statistics.priors=fixed", "dp-cmf ssp-i ssp-convex private-item-bias"},
	{"statistics.memory=0.2", "ssp-c"},
	{"statistics.bias-ridge=3", ""}, // of priors that are not learned alone
	{"statistics.taste-weight=0.2", "dp-cmf ssp-c ssp-i am-ssp ssp-convex"},
	{"statistics.user-bias-ridge=3", "dp-cmf ssp-c ssp-i ssp-convex private-item-bias"},
	{"statistics.user-ridge=3", "statistics"},
	{"statistics.item-ridge=3", "dpals ada-dpals dp-cmf ssp-i am-ssp ssp-convex"},
	{"statistics.item-prior=3", "dpals ada-dpals dp-cmf ssp-i am-ssp ssp-convex"},
	{"statistics.unobserved=0.2", ""}, // of implicit feedback alone
	{"split.positive=3", ""},          // likewise
	{"statistics.resample=1", "statistics"},
	{"statistics.start-spread=0.2", "dpals ada-dpals dp-cmf ssp-c"},
	{"statistics.loss=huber", "ssp-convex"},
	{"statistics.loss-width=2", "ssp-convex"},
	{"statistics.shares.bias=0.3", "dp-cmf ssp-c ssp-i ssp-convex"},
	{"statistics.shares.weight-counts=0.2", "statistics bias"},
	{"statistics.shares.gramian=0.2", "statistics"},
	{"encoder.optimiser=adam", "ssp-c ssp-i am-ssp ssp-convex"},
	{"encoder.steps=50", "ssp-i am-ssp ssp-convex"},
	{"encoder.dense=yes", "ssp-i am-ssp ssp-convex"},
	{"encoder.ids=no", "ssp-i am-ssp ssp-convex"},
	{"encoder.rate=0.1", "ssp-i am-ssp ssp-convex"},
	{"encoder.start-norm=2", "ssp-i am-ssp ssp-convex"},
	{"cmf.sweeps=2", "dp-cmf"},
	{"cmf.feature-weight=2", "dp-cmf"},
}

var formOf = map[Algorithm]string{
	LFLSGDMF: "device", FMFLFL: "device", VFLSGDMF: "vertical", FMFVFL: "vertical",
	HFLSGDMF: "horizontal", HFLSynSGD: "horizontal", FMFHFL: "horizontal", SGDMF: "central",
	DPALS: "statistics", AdaDPALS: "statistics", DPCMF: "statistics", SSPC: "statistics", SSPI: "statistics", AMSSP: "statistics",
	SSPConvex: "statistics", PrivateItemBias: "bias",
}

// keyOf is the key of the last of the settings.
func keyOf(settings string) string {
	return settings[strings.LastIndexByte(settings, ' ')+1 : strings.LastIndexByte(settings, '=')]
}

// matters looks a key up in effects; what is not there matters always.
func matters(key string, a Algorithm) bool {
	for _, tt := range effects {
		if keyOf(tt.setting) == key {
			forms := strings.Fields(tt.forms)
			return slices.Contains(forms, formOf[a]) || slices.Contains(forms, string(a))
		}
	}
	return true
}

func TestSettingsWithoutEffectAreCalledOut(t *testing.T) {
	for _, a := range Algorithms() {
		for _, tt := range effects {
			c, err := Resolve(set(fmt.Sprintf("algorithm=%s %s", a, tt.setting)))
			if err != nil {
				t.Errorf("%s %s: %v", a, tt.setting, err)
				continue
			}
			var want []string
			switch key := keyOf(tt.setting); {
			case strings.HasPrefix(key, "deployment."):
				want = []string{key + " has no effect in a simulation"}
			case !matters(key, a):
				want = []string{fmt.Sprintf("%s has no effect with %s", key, a)}
			}
			if diff := cmp.Diff(want, c.Warnings()); diff != "" {
				t.Errorf("%s %s: warnings (-want +got):\n%s", a, tt.setting, diff)
			}
		}
	}
}

// The defaults of no algorithm warn.
func TestDefaultsDoNotWarn(t *testing.T) {
	for _, a := range Algorithms() {
		c, err := Resolve(set("algorithm=" + string(a)))
		if err != nil {
			t.Fatal(err)
		}
		if w := c.Warnings(); len(w) > 0 {
			t.Errorf("%s: %q", a, w)
		}
	}
}

// repeatable are experiments whose configuration must come back from their
// config.yaml: all algorithms, and every choice that depends on another.
var repeatable = []string{
	"", "epsilon=inf", "noise=none", "noise=replace rank=3", "contribution=all-ratings epsilon=3", "rating-max=6 rating-min=0.5",
	"algorithm=sgd-mf", "algorithm=fmf-lfl",
	"algorithm=vfl-sgdmf", "algorithm=vfl-sgdmf epsilon=inf", "algorithm=vfl-sgdmf noise=none", "algorithm=vfl-sgdmf parties=1 accountant=rdp",
	"algorithm=vfl-sgdmf unit=user item-steps=7 accountant=rdp", "algorithm=vfl-sgdmf unit=user parties=12 local-steps=2 accountant=rdp",
	"algorithm=vfl-sgdmf clipping=both clip-norm=2 epsilon=1 rank=2 accountant=rdp", "algorithm=vfl-sgdmf accountant=rdp model.user-rate=0.01",
	"algorithm=vfl-sgdmf partition=category parties=3 accountant=rdp",
	"algorithm=hfl-sgdmf", "algorithm=hfl-sgdmf parties=1 sampling-rate=1",
	"algorithm=hfl-sgdmf train=both clipping=gradient dropout=0.2 accountant=rdp",
	"algorithm=hfl-synsgd accountant=rdp", "algorithm=hfl-synsgd train=items clip-ratings=3 accountant=rdp",
	"algorithm=dpals", "algorithm=dpals statistics.budgeting=tail noise=replace", "algorithm=ada-dpals accountant=gdp-skellam", "algorithm=dp-cmf epsilon=1",
	"algorithm=ssp-c", "algorithm=ssp-c features=none", "algorithm=ssp-c encoder.optimiser=adam", "algorithm=am-ssp encoder.optimiser=exact",
	"algorithm=dp-cmf statistics.priors=fixed", "algorithm=dp-cmf statistics.taste-weight=0", "algorithm=ada-dpals statistics.bias-first=yes", "algorithm=ssp-c feedback=implicit rank=3", "algorithm=ssp-c epsilon=inf", "algorithm=ssp-i statistics.resample=5",
	"algorithm=am-ssp", "algorithm=ssp-convex statistics.loss=logistic", "algorithm=ssp-convex features=year", "algorithm=private-item-bias",
	"algorithm=fmf-vfl", "algorithm=fmf-vfl unit=user parties=1", "algorithm=fmf-hfl", "algorithm=fmf-hfl parties=2",
}

// leftOpen are keys that a setting makes irrelevant, and that stay at auto for it.
var leftOpen = map[string]string{
	"statistics.loss=logistic": "statistics.loss-width",
	"features=none":            "encoder.steps statistics.taste-weight",
	"encoder.optimiser=adam":   "statistics.memory statistics.start-spread",
	"encoder.optimiser=exact":  "statistics.item-ridge statistics.item-prior encoder.steps encoder.ids encoder.start-norm encoder.rate",
	"feedback=implicit": "statistics.mean-cap statistics.clip-rating statistics.clip-bias statistics.user-bias-ridge statistics.bias-ridge statistics.taste-weight " +
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

// config.yaml of a run is what the run was given by, with nothing left open
// that the result depends on and nothing in it to warn of that was not warned of.
func TestConfigOfARunRepeatsIt(t *testing.T) {
	for _, settings := range repeatable {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			e := open(t, settings)
			list, err := parse("config.yaml", e.Config.YAML())
			if err != nil {
				t.Fatal(err)
			}
			c, err := Resolve(list)
			if err != nil {
				t.Fatalf("its own configuration is refused: %v", err)
			}
			again, err := Open(t.Context(), c, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e.Config, again.Config); diff != "" {
				t.Errorf("configuration (-first +again):\n%s", diff)
			}
			if !reflect.DeepEqual(e.Steps, again.Steps) || e.Privacy.Budget != again.Privacy.Budget || e.Manifest() != again.Manifest() || e.silo != again.silo {
				t.Errorf("release %+v of %+v, again %+v of %+v", e.Steps, e.silo, again.Steps, again.silo)
			}
			if diff := cmp.Diff(e.parts, again.parts); diff != "" {
				t.Errorf("the parties own something else (-first +again):\n%s", diff)
			}
			first, err := Resolve(set("data=synthetic:small " + settings))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first.Warnings(), c.Warnings()); diff != "" {
				t.Errorf("warnings (-first +again):\n%s", diff)
			}
			for _, s := range list {
				if s.Value == "auto" && matters(s.Key, c.Algorithm) && !staysOpen(settings, s.Key) {
					t.Errorf("%s is left at auto, and has an effect", s.Key)
				}
			}
		})
	}
}
