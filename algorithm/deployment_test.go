package algorithm_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// simulationOnly are settings, of values other than the default, of all the keys
// that a deployment has no use for.
var simulationOnly = []string{
	"dropout=0.2", "dropout-at=share", "leave=0.1", "away=0.1", "away-rounds=2", "baselines=quick",
	"network.latency-ms=1", "network.up-mbps=1", "network.down-mbps=1", "network.compute-ms=1", "network.stage-timeout-s=61",
	"split.test=0.2", "split.fold=1/5", "split.users=seen", "split.validation=0.1", "split.by=leave-one-out", "split.time=2024-05-31", "split.seed=7", "split.target=exact",
	"eval.top-k=7", "eval.buckets=4", "eval.relevant=3", "eval.users=7", "eval.negatives=9", "eval.drift=no", "chosen-by=plain",
}

const rosterWarning = "mode semi-honest trusts the aggregator not to lie in rosters: an aggregator that shows a client only keys of its own making learns that client's contribution. " +
	"With mode active, clients sign their keys and check them"

const noiselessWarning = "epsilon inf adds no noise: sums may show ratings, and a client takes part only with --max-epsilon inf of its owner"

// Deployed or simulated, a setting that has no effect is called out, once.
func TestSettingsWithoutEffectInADeploymentAreCalledOut(t *testing.T) {
	var all []string
	for _, tt := range effects {
		all = append(all, tt.setting)
	}
	for _, a := range algorithm.Names() {
		if !algorithm.Find(a).About().Federated() {
			continue
		}
		for _, setting := range append(all, simulationOnly...) {
			c, err := config.Resolve(set(fmt.Sprintf("algorithm=%s %s", a, settingsFor(a, setting))))
			if err != nil {
				t.Fatalf("%s %s: %v", a, setting, err)
			}
			key := keyOf(setting)
			want := []string{rosterWarning}
			if algorithm.Epsilon.Value(c) == math.Inf(1) {
				want = append(want, noiselessWarning)
			}
			switch {
			case slices.ContainsFunc(simulationOnly, func(s string) bool { return keyOf(s) == key }):
				want = append(want, key+" has no effect in a deployment")
			case !strings.HasPrefix(key, "deployment.") && !matters(key, a):
				want = append(want, fmt.Sprintf("%s has no effect with %s", key, a))
			}
			if diff := cmp.Diff(want, ofLast(algorithm.DeploymentWarnings(c), setting)); diff != "" {
				t.Errorf("%s %s: warnings (-want +got):\n%s", a, setting, diff)
			}
		}
	}
	for settings, want := range map[string][]string{
		"secagg=real": {rosterWarning}, "secagg=real mode=active": nil,
		"secagg=real dropout=0.9":               {rosterWarning, "dropout has no effect in a deployment"},
		"secagg=real mode=active epsilon=inf":   {noiselessWarning},
		"secagg=real mode=active epsilon=100":   nil,
		"noise-draw=sum":                        {rosterWarning},
		"noise-draw=sum algorithm=vfl-sgdmf":    {rosterWarning, "noise-draw has no effect with vfl-sgdmf"},
		"noise-draw=client out=a name=b seed=7": {rosterWarning},
		"columns=user=a duplicates=last":        {rosterWarning, "columns is each party's own: fednode client has --columns", "duplicates is each party's own: fednode client has --duplicates"},
	} {
		c, err := config.Resolve(set(settings))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, algorithm.DeploymentWarnings(c)); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", settings, diff)
		}
	}
}

// Every key is one of a simulation, of a deployment, or of both.
func TestSimulationKeysAreKeys(t *testing.T) {
	var keys []string
	for _, s := range simulationOnly {
		keys = append(keys, keyOf(s))
	}
	slices.Sort(keys)
	if diff := cmp.Diff(keys, slices.Sorted(slices.Values(names(algorithm.Scoped(config.Simulated))))); diff != "" {
		t.Errorf("of a simulation alone (-want +got):\n%s", diff)
	}
	for _, key := range append(keys, names(algorithm.Scoped(config.Deployed))...) {
		if !slices.Contains(names(config.Keys()), key) {
			t.Errorf("%s is no key", key)
		}
	}
}

func TestDeployed(t *testing.T) {
	other := func(s string) bool {
		return s == "split.validation=0.1" || s == "split.fold=1/5" || s == "chosen-by=plain"
	} // which exclude split.time, and the last one a deployment
	for settings, want := range map[string]string{
		"":                        "secagg=real",
		"secagg=real":             "secagg=real",
		"noise-draw=sum":          "secagg=real noise-draw=client",
		"noise-draw=client":       "secagg=real noise-draw=client",
		"secagg=real mode=active": "secagg=real mode=active",
		strings.Join(slices.DeleteFunc(slices.Clone(simulationOnly), other), " ") + " rounds=3 workers=2 deployment.gather-s=1": "secagg=real rounds=3 workers=2 deployment.gather-s=1",
		"secagg=real mode=active dropout-at=consistency":                                                                        "secagg=real mode=active",
		"algorithm=vfl-sgdmf parties=2":                                                                                         "secagg=real algorithm=vfl-sgdmf parties=2",
		"algorithm=fmf-hfl":                                                                                                     "secagg=real algorithm=fmf-hfl",
	} {
		c, err := config.Resolve(set(settings))
		if err != nil {
			t.Fatal(err)
		}
		expected, err := config.Resolve(set(want + " split.test=0"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := algorithm.Deployed(c)
		if err != nil {
			t.Errorf("%s: %v", settings, err)
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", settings, diff)
		}
	}
}

func TestDeployedRefuses(t *testing.T) {
	for settings, want := range map[string]string{
		"split.test-file=t.csv":            "split.test-file: a deployment does not measure; each party leaves out of its data what it does not want trained on",
		"algorithm=dp-cmf public-users=10": "public-users: no role of a deployment has all users' ratings, so none can take some out. Do not invite these users. With ssp-c each writes a gift by fednode client --donate, which the server takes up with --donations; else name a file of what they gave in features, which are public: fedsim data raters writes it",
		"algorithm=sgd-mf":                 "algorithm: sgd-mf has all ratings in one place; there is nothing to deploy",
		"chosen-by=plain":                  "chosen-by: a search of a simulation saw all ratings in one place, and no party of a deployment does. Leave the key out if the settings were chosen by other data, such as a public set",
		"noise=replace":                    "noise: replaced noise shows every sum twice, and is there for comparison only; use split",
		"algorithm=vfl-sgdmf parties=1":    "parties: a single party has no other party to hide among, and needs no deployment; give at least 2",
		"algorithm=hfl-sgdmf parties=1 secagg=none": "secagg: none is a plain sum, which shows what is in it; the sums of a deployment are real\n" +
			"parties: a single party has no other party to hide among, and needs no deployment; give at least 2",
	} {
		c, err := config.Resolve(set(settings))
		if err != nil {
			t.Fatal(err)
		}
		_, err = algorithm.Deployed(c)
		var refused *config.Error
		if !errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%s: error %v\nwant %s", settings, err, want)
		}
	}
	// Deployed checks a configuration that was never resolved too.
	c := config.Config{}
	algorithm.Rounds.Set(&c, 0)
	algorithm.Secagg.Set(&c, "quantum")
	if _, err := algorithm.Deployed(c); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two problems: %v", err)
	}
}

// A deployment of a deployment is the same, and has nothing left to warn of but
// what its algorithm ignores.
func TestDeployedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once, err := algorithm.Deployed(validConfig().Draw(t, "config"))
		if err != nil {
			return
		}
		twice, err := algorithm.Deployed(once)
		if err != nil || !once.Equal(twice) {
			t.Fatalf("%v (-once +twice):\n%s", err, cmp.Diff(once, twice))
		}
		for _, w := range algorithm.DeploymentWarnings(once) {
			if w != rosterWarning && w != noiselessWarning && !strings.HasSuffix(w, "has no effect with "+algorithm.Name.Of(once)) {
				t.Fatalf("warning %q", w)
			}
		}
	})
}

// TestExperimentFilesDeploy checks that the published experiments can be deployed as they are, except experiments of one party.
func TestExperimentFilesDeploy(t *testing.T) {
	files, err := filepath.Glob("../experiments/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		list, err := config.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Resolve(list)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := algorithm.Deployed(c); (err == nil) == strings.Contains(file, "-s1-") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
