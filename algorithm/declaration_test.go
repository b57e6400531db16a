package algorithm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// Help, documentation and checks come from the declarations: each says enough for them.
func TestKeysAreDeclaredInFull(t *testing.T) {
	for _, k := range config.Keys() {
		if !strings.HasSuffix(k.Help, ".") {
			t.Errorf("%s: the help %q is no sentence", k.Name, k.Help)
		}
		if k.Flag != (k.Placeholder != "") {
			t.Errorf("%s: flag is %v, and the placeholder is %q", k.Name, k.Flag, k.Placeholder)
		}
		numeric := k.Kind == config.Real || k.Kind == config.Whole
		if numeric && k.Range == (config.Range{}) && k.Check == nil {
			t.Errorf("%s: it is a number of no range", k.Name)
		}
		if (k.Default == "auto") != (k.Auto != "") {
			t.Errorf("%s: the default is %q, and the rule for auto %q", k.Name, k.Default, k.Auto)
		}
	}
}

// TestEveryKeyIsUsed checks that the keys of each algorithm are declared, and that each declared key belongs to an algorithm or to all.
func TestEveryKeyIsUsed(t *testing.T) {
	all := config.Keys()
	used := make(map[*config.Key]bool)
	for _, a := range algorithm.All() {
		about := a.About()
		for _, k := range about.Keys {
			if k == nil || !slices.Contains(all, k) {
				t.Errorf("%s has a key that is not declared: %v", about.Name, k)
			}
		}
		for _, k := range about.Used() {
			used[k] = true
		}
	}
	for _, k := range all {
		if !used[k] {
			t.Errorf("no algorithm has the key %s", k.Name)
		}
	}
}

// Every algorithm runs with nothing but its name said.
func TestEveryAlgorithmRunsByDefault(t *testing.T) {
	if len(algorithm.Names()) < 16 {
		t.Fatalf("there are %q only", algorithm.Names())
	}
	for _, name := range algorithm.Names() {
		c, err := config.Resolve(set("algorithm=" + name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if problems := c.Choose(algorithm.Of(c).About().Used(), nil).Problems(); len(problems) > 0 {
			t.Errorf("%s, with what is chosen for auto: %v", name, problems)
		}
	}
}
