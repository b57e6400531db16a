package algorithm_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/opened"
)

// named is an algorithm of which only what is said of it is looked at.
type named struct {
	algorithm.Algorithm
	about algorithm.About
}

func (n *named) About() *algorithm.About { return &n.about }

// A name that is taken, and an algorithm that says too little, are refused, and leave the registry as it was.
func TestRegisterRefuses(t *testing.T) {
	before := algorithm.Names()
	taken := *algorithm.All()[0].About()
	nameless, unitless := taken, taken
	nameless.Name, unitless.Name, unitless.Units = "", "new", nil
	for reason, about := range map[string]algorithm.About{
		"is registered already": taken, `"": name, help`: nameless, `"new": name, help, units`: unitless,
	} {
		if err := algorithm.Register(&named{about: about}); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v, want %q in it", err, reason)
		}
	}
	if after := algorithm.Names(); !slices.Equal(after, before) {
		t.Errorf("algorithms are %v, were %v", after, before)
	}
}

// Where no algorithm is named, feedback chooses: the table of algorithms in docs/algorithms.md has the two names.
func TestDefaultByFeedback(t *testing.T) {
	for settings, want := range map[string]string{
		"": "ssp-c", "feedback=explicit": "ssp-c", "feedback=implicit": "private-ease", "feedback=implicit epsilon=inf": "private-ease", "algorithm=ssp-c feedback=implicit": "ssp-c",
	} {
		c, err := config.Resolve(opened.Settings(settings))
		if err != nil {
			t.Fatal(settings, err)
		}
		if got := algorithm.Name.Of(c); got != want {
			t.Errorf("%q runs %s, want %s", settings, got, want)
		}
		opened.Reread(t, filepath.Join(t.TempDir(), "config.yaml"), c)
	}
}
