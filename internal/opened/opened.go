// Package opened opens experiments for tests: on the small synthetic set, unless settings name
// other data, and as another party of a deployment sees them. A test imports the families that it
// needs. The package also has helpers that read a configuration or an experiment.
package opened

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/experiment"
)

// Settings reads KEY=VALUE pairs with spaces between. A later pair of a key replaces an earlier one.
func Settings(text string) []config.Setting {
	var list []config.Setting
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		list, _ = config.Over(list, []config.Setting{{Key: key, Value: value, Origin: "place of " + key}})
	}
	return list
}

// Reread writes a configuration to a file and reads it back, which must give the same one.
func Reread(t rapid.TB, path string, want config.Config) {
	t.Helper()
	b := want.YAML()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	settings, err := config.ReadFile(path)
	if err != nil {
		t.Fatalf("%v, in\n%s", err, b)
	}
	got, err := config.Resolve(settings)
	if err != nil {
		t.Fatalf("%v, in\n%s", err, b)
	}
	if !got.Equal(want) {
		t.Fatalf("it came back otherwise (-want +got):\n%s\nfrom\n%s", cmp.Diff(want, got), b)
	}
}

// Try opens the small synthetic set with the given settings; the default algorithm is lfl-sgdmf.
func Try(t *testing.T, settings string) (*experiment.Experiment, error) {
	t.Helper()
	c, err := config.Resolve(Settings("data=synthetic:small algorithm=lfl-sgdmf " + settings))
	if err != nil {
		return nil, err
	}
	return experiment.Open(t.Context(), c, nil)
}

// Experiment is Try that fails the test on an error.
func Experiment(t *testing.T, settings string) *experiment.Experiment {
	t.Helper()
	e, err := Try(t, settings)
	if err != nil {
		t.Fatalf("%s: %v", settings, err)
	}
	return e
}

// Federation returns the parties of an experiment, before the first round.
func Federation(t *testing.T, e *experiment.Experiment) *experiment.Federation {
	t.Helper()
	f, err := e.Federation()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Vary returns the experiment as its baseline of that name changes it.
func Vary(t *testing.T, e *experiment.Experiment, name string) *experiment.Experiment {
	t.Helper()
	for _, b := range e.Baselines() {
		if b.Name == name && b.Vary != nil {
			v, err := e.Vary(b)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("%s has no run %s to be compared with", e.About().Name, name)
	return nil
}

// Joined returns an experiment as another party of its deployment opens it, in the same session.
func Joined(t *testing.T, e *experiment.Experiment) *experiment.Experiment {
	t.Helper()
	p, err := agreement.Of(e, e.Session())
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Encode()
	if err == nil {
		p, err = agreement.Decode(b)
	}
	if err == nil {
		e, err = agreement.Open(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Crowd writes a file of ratings of all items but every seventh; the choice and the ratings follow from seed.
func Crowd(t *testing.T, users, items, seed int) string {
	t.Helper()
	var csv strings.Builder
	csv.WriteString("user,item,rating\n")
	for u := range users {
		for i := range items {
			if (u+i+seed)%7 > 0 {
				fmt.Fprintf(&csv, "someone-%d,item-%d,%d\n", u, i, 1+(u*i+seed)%5)
			}
		}
	}
	return File(t, csv.String())
}

// File writes a file of ratings.
func File(t *testing.T, csv string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crowd.csv")
	if err := os.WriteFile(file, []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Number returns the value of a numeric key, by its name.
func Number(c config.Config, key string) float64 {
	return config.NumberKey{Key: config.Find(key)}.Value(c)
}
