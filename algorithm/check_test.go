package algorithm_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/internal/families"
)

func TestDefaultsAreValid(t *testing.T) {
	c, err := config.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Equal(config.Config{}) {
		t.Errorf("nothing said resolves to\n%s", c.YAML())
	}
	if w := algorithm.Warnings(c); len(w) != 0 {
		t.Errorf("the defaults warn: %v", w)
	}
	if !algorithm.Private(c) {
		t.Error("the defaults promise no privacy")
	}
}

// names returns the names of keys.
func names(keys []*config.Key) []string {
	var list []string
	for _, k := range keys {
		list = append(list, k.Name)
	}
	return list
}

func set(text string) []config.Setting {
	var list []config.Setting
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		list = append(list, config.Setting{Key: key, Value: value, Origin: "place of " + key})
	}
	return list
}

func TestRefusals(t *testing.T) {
	for _, tt := range refusals {
		_, err := config.Resolve(set(tt.settings))
		if err == nil {
			t.Errorf("%s: accepted", tt.settings)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, "place of "+tt.key+": ") || !strings.Contains(got, tt.reason) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want one line about %s with %q", tt.settings, got, tt.key, tt.reason)
		}
	}
}

// Every key that takes a number or one of several words has its refusal above.
func TestRefusalsCoverTheKeys(t *testing.T) {
	covered := map[string]bool{
		// Checked with the data: what they may be depends on it.
		"data": true, "split.test-file": true, "member": true, "start-from": true,
		// Every number of its kind is as good as another.
		"seed": true,
	}
	for _, tt := range refusals {
		covered[tt.key] = true
	}
	for _, key := range names(config.Keys()) {
		if !covered[key] {
			t.Errorf("nothing that must be refused is known for %s", key)
		}
	}
}

// The ends of what is allowed.
func TestAccepted(t *testing.T) {
	for _, settings := range []string{
		"secagg=real", "secagg=real noise-draw=client", "secagg=real mode=active dropout-at=consistency", "secagg=real algorithm=vfl-sgdmf",
		"secagg=real noise=replace", "noise=replace dropout-at=replace", "secagg=real noise=replace dropout-at=replace",
		"dropout=0", "dropout=0.999", "tolerance=0", "colluders=0", "leave=1", "away=1", "rank=1024", "rounds=1000000", "workers=64",
		"epsilon=1e-12", "epsilon=inf", "epsilon=inf noise=none", "noise=none", "algorithm=fmf-lfl", "algorithm=sgd-mf epsilon=inf",
		"delta=1e-300", "model.fit-steps=0", "model.fit-ridge=0", "split.validation=0.5",
		"algorithm=ssp-c feedback=implicit split.test=10000 split.validation=10000 split.least=5 split.target=exact", "algorithm=ssp-c statistics.top-items=1", "algorithm=ssp-c statistics.top-items=0.1",
		"network.latency-ms=0", "network.compute-ms=0", "name=a..b", "accountant=best", "accountant=gdp-skellam",
		"algorithm=vfl-sgdmf", "algorithm=vfl-sgdmf unit=user clip-ratings=1", "algorithm=vfl-sgdmf clip-ratings=0", "algorithm=vfl-sgdmf parties=1000",
		"algorithm=vfl-sgdmf parties=1 secagg=none", "algorithm=vfl-sgdmf sampling-rate=1", "algorithm=vfl-sgdmf sampling-rate=1e-9",
		"algorithm=vfl-sgdmf noise=own", "algorithm=vfl-sgdmf noise=none", "algorithm=vfl-sgdmf partition=category item-steps=0",
		"algorithm=hfl-sgdmf accountant=rdp", "algorithm=hfl-sgdmf accountant=pld", "algorithm=hfl-sgdmf accountant=best", "algorithm=hfl-sgdmf unit=user",
		"algorithm=hfl-sgdmf model.fine-tune=0 train=both", "algorithm=hfl-sgdmf model.density=1", "algorithm=hfl-synsgd local-steps=1",
		"algorithm=fmf-vfl epsilon=inf", "algorithm=fmf-hfl noise=none", "baselines=quick",
		"deployment.stage-timeout-s=1e-3", "deployment.stage-timeout-s=86400", "deployment.tail-s=1e-3", "deployment.tail-s=86400", "deployment.gather-s=0", "deployment.gather-s=604800",
	} {
		if _, err := config.Resolve(set(settings)); err != nil {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

// All problems come at once, in the order of the keys.
func TestResolveReportsEverything(t *testing.T) {
	_, err := config.Resolve(set("rounds=0 epsilon=0 delta=2 dropout=7 name=. unit=x"))
	if err == nil {
		t.Fatal("accepted")
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 6 {
		t.Errorf("%d problems, want 6:\n%v", got, err)
	}
}

// They come in the same order each time. Were it left to chance between two, 20
// repetitions would miss it once in a million.
func TestResolveReportsInOrder(t *testing.T) {
	for _, settings := range []string{
		"rounds=0 epsilon=0 delta=2 dropout=7 name=. unit=x",
		"algorithm=vfl-sgdmf model.user-rate=0 model.item-rate=0 parties=0",
	} {
		_, err := config.Resolve(set(settings))
		if err == nil {
			t.Fatalf("%s: accepted", settings)
		}
		for range 20 {
			if _, again := config.Resolve(set(settings)); again.Error() != err.Error() {
				t.Fatalf("%s: another order:\n%v\nafter\n%v", settings, again, err)
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		settings string
		want     []string // what each warning says
	}{
		{"dropout=0.3 tolerance=0.3", nil},
		{"dropout=0.31 tolerance=0.3", []string{"dropout 0.31 is above the tolerance 0.3"}},
		{"dropout=0.5 algorithm=sgd-mf", []string{"dropout has no effect with sgd-mf"}},
		{"dropout=0.1 leave=0.1 away=0.2", nil},               // 1 - 0.9·0.9·(1 - 0.2·3/10) = 0.239
		{"dropout=0.25 leave=0.2", []string{"a loss of 0.4"}}, // 1 - 0.75·0.8
		{"noise=replace", []string{"the true epsilon is above the claimed one"}},
		{"noise=replace dropout=0.5", []string{"dropout 0.5", "noise replace"}},
	} {
		c, err := config.Resolve(set(tt.settings))
		if err != nil {
			t.Fatal(err)
		}
		got := algorithm.Warnings(c)
		if len(got) != len(tt.want) {
			t.Errorf("%s: warnings %q, want %d", tt.settings, got, len(tt.want))
			continue
		}
		for i, w := range tt.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%s: warning %q, want %q in it", tt.settings, got[i], w)
			}
		}
	}
}

// A seed of the split has an effect where something of the split is drawn.
func TestSeedOfASplitWithoutDraws(t *testing.T) {
	for settings, idle := range map[string]bool{
		"": false, "split.by=user-time": false, "split.by=leave-one-out": false, "split.validation=0.1": false,
		"split.by=time": true, "split.by=time split.validation=0.1": true,
		"split.test-file=t.csv": true, "split.test-file=t.csv split.validation=0.1": false,
		"algorithm=ssp-c feedback=implicit split.by=time":                              false, // who is held out
		"algorithm=ssp-c feedback=implicit split.test-file=t.csv":                      true,
		"algorithm=ssp-c feedback=implicit split.test-file=t.csv split.validation=0.1": false,
	} {
		c, err := config.Resolve(set(settings + " split.seed=0"))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(algorithm.KeysWithoutEffect(c), algorithm.SplitSeed.Key); got != idle {
			t.Errorf("%s: without effect is %v, want %v", settings, got, idle)
		}
	}
}

func TestPrivate(t *testing.T) {
	for settings, want := range map[string]bool{
		"": true, "epsilon=3": true, "noise=replace": true, "epsilon=inf": false, "noise=none": false, "algorithm=fmf-lfl": false, "algorithm=sgd-mf": false,
	} {
		c, err := config.Resolve(set(settings))
		if err != nil {
			t.Fatal(err)
		}
		if algorithm.Private(c) != want {
			t.Errorf("%q: private is %v", settings, !want)
		}
		if got := !math.IsInf(algorithm.Epsilon.Chosen(c), 1); got != want {
			t.Errorf("%q: epsilon is %v", settings, algorithm.Epsilon.Chosen(c))
		}
	}
}
