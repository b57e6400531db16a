package fedsim_test

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

var update = flag.Bool("update", false, "write the pages that are made from declarations")

// docs/configuration.md is what the declarations say.
func TestConfigurationPage(t *testing.T) {
	got := config.Page(algorithm.Names(), func(name string, k *config.Key) bool {
		return slices.Contains(algorithm.Find(name).About().Used(), k)
	})
	samePage(t, "docs/configuration.md", got)
}

func samePage(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is not what the declarations say; run the test with -update (-page +declarations):\n%s", path, d)
	}
}
