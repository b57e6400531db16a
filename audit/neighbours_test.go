package audit

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/internal/opened"
)

// Of every algorithm with clients, and every unit that it protects, runs that differ in a unit
// show nothing else, with clients lost at all stages.
func TestNeighboursDifferInNothingElse(t *testing.T) {
	for _, a := range algorithm.All() {
		about := a.About()
		if !about.Federated() {
			continue
		}
		for _, unit := range about.Units {
			settings := "algorithm=" + about.Name + " unit=" + string(unit) + " tolerance=0.4 dropout=0.2 dropout-at=any"
			if about.Clients.Organisations() {
				settings = "algorithm=" + about.Name + " unit=" + string(unit) + " rounds=3"
			}
			t.Run(about.Name+" "+string(unit), func(t *testing.T) {
				t.Parallel()
				c, err := Neighbours(t.Context(), opened.Settings(settings))
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Err(); err != nil {
					t.Errorf("%v:\n%s", err, strings.Join(c.Differences, "\n"))
				}
				for _, x := range c.Compared {
					if x.Count == 0 {
						t.Errorf("no %s were compared", x.What)
					}
				}
			})
		}
	}
}

// What is not covered is seen: where the server absorbs its own sums, models and broadcasts
// differ, and where another user is there, so does what follows from how many there are.
func TestDifferencesAreSeen(t *testing.T) {
	full := open(t, "algorithm=lfl-sgdmf rounds=3")
	set, err := emptied(full)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := full.Data.Len(), set.Len(); is != was-Items {
		t.Fatalf("of %d ratings %d are left without a user with %d", was, is, Items)
	}
	empty, err := experiment.OpenSet(full.Asked(), set)
	if err != nil {
		t.Fatal(err)
	}
	first, err := watch(t.Context(), full, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := watch(t.Context(), empty, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"models", "messages and sizes"} {
		if different(first.seen[kind], own.seen[kind]) == "" {
			t.Errorf("%s are the same although the sums are not", kind)
		}
	}
	lossy := open(t, "algorithm=lfl-sgdmf rounds=3 seed=2")
	other, err := watch(t.Context(), lossy, first.sums)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"settings", "file names", "rounds and their times", "log lines"} {
		if different(first.seen[kind], other.seen[kind]) == "" {
			t.Errorf("%s are the same although the seed is not", kind)
		}
	}
}
