package algorithm_test

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
)

// Users and ratings of the sets that experiments name, by GroupLens' README of each set.
var published = map[string]config.Facts{
	"ml-latest-small":  {Users: 610, Published: 100_836},
	"synthetic:ml-1m":  {Users: 6_040, Published: 1_000_209},
	"synthetic:ml-10m": {Users: 69_878, Published: 10_000_054},
}

// TestExperimentFiles checks that every file in experiments/ runs, has no setting without
// effect, and matches its name.
func TestExperimentFiles(t *testing.T) {
	files, err := filepath.Glob("../experiments/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		list, err := config.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		c, err := config.Resolve(list)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if w := algorithm.Warnings(c); len(w) > 0 {
			t.Errorf("%s: %v", file, w)
		}
		if d := algorithm.Delta.Of(c); d.Given && !math.IsInf(algorithm.Epsilon.Value(c), 1) {
			f, known := published[algorithm.Data.Of(c)]
			if err := dp.CheckDelta(d.Value, algorithm.PublicUnits(c, &f)); err != nil || !known {
				t.Errorf("%s: delta: %v, set known %t", file, err, known)
			}
		}
		name := algorithm.Name.Of(c)
		if algorithm.Of(c).About().Clients.Organisations() {
			name += fmt.Sprintf("-s%d", algorithm.Parties.Int(c.Choose([]*config.Key{algorithm.Parties.Key}, nil)))
		}
		name += "-" + regexp.MustCompile(`[^a-z0-9-]+`).ReplaceAllString(algorithm.Data.Of(c), "-")
		name += fmt.Sprintf("-eps%v", algorithm.Epsilon.Of(c))
		if got := strings.TrimSuffix(filepath.Base(file), ".yaml"); got != name {
			t.Errorf("%s holds %s", file, name)
		}
	}
}
