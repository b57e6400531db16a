package fedssp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
)

// An algorithm has the keys of its stages and solvers. The oracle is [config.Key.When] over many
// settings: a key belongs to an algorithm if some settings give it an effect, and else the page of
// keys must not list it there.
func TestKeysAreThoseWithAnEffect(t *testing.T) {
	effort.NotShort(t, "a run for each key")
	t.Parallel()
	var bases [][]string
	for _, feedback := range []string{"explicit", "implicit"} {
		for _, epsilon := range []string{"1", "inf"} {
			for _, features := range []string{"", "none", "genres"} {
				for _, first := range []string{"auto", "no", "yes"} {
					b := []string{"feedback=" + feedback, "epsilon=" + epsilon, "statistics.bias-first=" + first}
					if features != "" {
						b = append(b, "features="+features)
					}
					bases = append(bases, b)
				}
			}
		}
	}
	single := []string{"seed=1", "statistics.top-items=0.3", "statistics.exponent=0.5", "statistics.bias-rounds=2", "statistics.resample=2", "statistics.learn=embeddings", "start-from=there",
		"statistics.budgeting=weights statistics.normalise=global", "statistics.priors=fixed statistics.gramian=per-item"}
	var own []*config.Key
	for _, k := range config.Keys() {
		if !slices.Contains([]string{"statistics", "gradient", "encoder", "cmf"}, k.Section()) {
			continue
		}
		own = append(own, k)
		for _, w := range k.Words {
			single = append(single, k.Name+"="+w)
		}
	}
	for _, a := range algorithm.All() {
		f, ok := a.(*family)
		if !ok {
			continue
		}
		effect := map[*config.Key]bool{}
		for _, base := range bases {
			for _, one := range single {
				var c config.Config
				for _, s := range slices.Concat(base, []string{"algorithm=" + f.about.Name}, strings.Fields(one)) {
					if key, value, _ := strings.Cut(s, "="); c.Set(key, value) != nil {
						t.Fatal(s)
					}
				}
				if f.about.CheckFeedback(c) != "" || len(c.Problems()) > 0 {
					continue
				}
				for _, k := range own {
					if k.When == nil || k.When(c) {
						effect[k] = true
					}
				}
			}
		}
		for _, k := range own {
			if has := f.about.Has(k); has != effect[k] {
				t.Errorf("%s: %s is listed: %v; some settings give it an effect: %v", f.about.Name, k.Name, has, effect[k])
			}
		}
	}
}

// TestRefusalNamesWhoseEncoderIsSolvedFor holds the words of a refusal against the algorithms: it names each whose encoder may be solved
// for, and no other.
func TestRefusalNamesWhoseEncoderIsSolvedFor(t *testing.T) {
	refusals := map[string]string{}
	for _, a := range algorithm.All() {
		if f, ok := a.(*family); ok {
			var c config.Config
			for key, value := range map[string]string{"algorithm": f.about.Name, "encoder.optimiser": "exact"} {
				if err := c.Set(key, value); err != nil {
					t.Fatal(err)
				}
			}
			_, refusals[f.about.Name], _ = strings.Cut(fmt.Sprint(c.Problems()), "exact is for ")
		}
	}
	for name, refused := range refusals {
		for _, text := range refusals {
			named := slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;]\n", r) }), name)
			if text != "" && named == (refused != "") {
				t.Errorf("%s: refused %t, named %t in %q", name, refused != "", named, text)
			}
		}
	}
	if refusals["ssp-i"] == "" || refusals["ssp-c"] != "" {
		t.Errorf("%q", refusals)
	}
}
