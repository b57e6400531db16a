package cond_test

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/lab/cond/regression"
)

func fields(t *testing.T, spec string) *dataset.Set {
	t.Helper()
	set, err := read.Open(t.Context(), spec, read.Options{Fields: true})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A run's statement follows from two facts: whether there are private fields, and whether all
// examples are in a step.
func TestPerceptronStatements(t *testing.T) {
	public, private := fields(t, "synthetic:fields-2000"), fields(t, "synthetic:fields-2000-private")
	for _, c := range []struct {
		set            *dataset.Set
		settings, want string
	}{
		{public, "algorithm=mlp-cond-dp regression.batch=100", "unit=example, relation=label, accountant=rdp, sampling=poisson, noise=float-gaussian)"},
		{public, "algorithm=mlp-dp-sgd regression.batch=2000", "unit=example, relation=label, accountant=rdp, sampling=none, noise=float-gaussian)"},
		{private, "algorithm=mlp-switch-cond-dp regression.batch=100", "unit=example, relation=private-part, accountant=rdp, sampling=poisson, noise=float-gaussian)"},
	} {
		r := trained(t, c.set, c.settings+" epsilon=1 accountant=rdp rounds=4 rank=2 regression.hidden=4-3")
		if got := r.Privacy.String(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q in it", c.settings, got, c.want)
		}
		if e := r.Privacy.Epsilon; !(e <= 1 && e > .95) {
			t.Errorf("%s: ε is %v", c.settings, e)
		}
	}
}

// Labels contain a product that a linear model cannot express: 36% of their variance by
// construction, beside 1% of noise. A perceptron that learns is below the best linear model's
// error, 0.37 of about 1.01.
func TestPerceptronSeesProducts(t *testing.T) {
	effort.LongOnly(t, "it takes 20 seconds")
	set := fields(t, "synthetic:fields-60000")
	r := trained(t, set, "algorithm=mlp-dp-sgd epsilon=inf rounds=600 regression.batch=2000 regression.rate=0.004")
	if !(r.TestMSE < .3) {
		t.Errorf("MSE %v", r.TestMSE)
	}
}

// Private fields alone leave nothing to condition, and a regression of numbers has no categories.
func TestPerceptronRefuses(t *testing.T) {
	private := fields(t, "synthetic:fields-200-private")
	only := *private
	profile := *private.Profile
	profile.Fields = nil
	only.Profile = &profile
	numbers := shaped(t, regression.TopLabels)
	for _, c := range []struct {
		set             *dataset.Set
		algorithm, want string
	}{{&only, "mlp-cond-dp", "none are left to condition by"}, {numbers, "mlp-dp-sgd", "learns from categories"}} {
		said := []config.Setting{{Key: "algorithm", Value: c.algorithm, Origin: "algorithm"}}
		settings, err := config.Resolve(said)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = experiment.OpenSet(settings, c.set); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.algorithm, err, c.want)
		}
	}
}

// The clip by hand. With 4,000 examples of 10 features and labels in a range of 12 an eighth is
// 1.5; ν = √2·11·5/(4,000·ε). At ε = 1 ν is 0.0194, and 0.14/√ν is 1.004. At ε = 100 ν is
// 0.000194, which gives more than 2. Without noise the clip is four eighths.
func TestClipFollowsTheNoise(t *testing.T) {
	set := shaped(t, regression.TopLabels)
	for epsilon, want := range map[string]float64{"1": 1.5 * .14 / math.Sqrt(math.Sqrt2*11*5/4000), "100": 3, "inf": 6} {
		c, err := config.Resolve([]config.Setting{{Key: "algorithm", Value: "cond-dp"}, {Key: "epsilon", Value: epsilon}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := experiment.OpenSet(c, set)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range config.Keys() {
			if k.Name != "regression.clip" {
				continue
			}
			if got := (config.NumberKey{Key: k}).Value(e.Config); math.Abs(got-want) > 1e-9 {
				t.Errorf("ε = %s: the clip is %v; by hand %v", epsilon, got, want)
			}
		}
	}
}
