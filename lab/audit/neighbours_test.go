package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/opened"
)

// Of every algorithm with clients, and every unit that it protects, runs that differ in a unit
// show nothing else, with clients lost at all stages.
func TestNeighboursDifferInNothingElse(t *testing.T) {
	for _, a := range algorithm.All() {
		about := a.About()
		if !about.Federated() || isBroken(about) {
			continue
		}
		for _, unit := range about.Units {
			settings := "algorithm=" + about.Name + " unit=" + string(unit) + " tolerance=0.4 dropout=0.2 dropout-at=any"
			if about.Clients.Organisations() {
				settings = "algorithm=" + about.Name + " unit=" + string(unit) + " rounds=3 accountant=rdp"
			} else if about.Has(algorithm.Rounds.Key) && !effort.Long() {
				settings += " rounds=2"
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

// The comparison sees differences that the noise does not cover. If the server absorbs its own sums, models and
// broadcasts differ. If there is another user, everything computed from the number of users differs too.
func TestDifferencesAreSeen(t *testing.T) {
	full := open(t, "algorithm=lfl-sgdmf rounds=3")
	set, err := emptied(full)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := full.Data.Len(), set.Len(); is != was-Items {
		t.Fatalf("of %d ratings %d are left without a user with %d", was, is, Items)
	}
	empty, err := experiment.OpenSet(full.Asked, set)
	if err != nil {
		t.Fatal(err)
	}
	first, err := watch(t.Context(), full, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := watch(t.Context(), empty, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"models", "messages and sizes"} {
		if different(first.seen[kind], own.seen[kind]) == "" {
			t.Errorf("%s are the same although the sums are not", kind)
		}
	}
	lossy := open(t, "algorithm=lfl-sgdmf rounds=3 seed=2")
	other, err := watch(t.Context(), lossy, nil, first.sums)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"settings", "file names", "rounds and their times", "log lines"} {
		if different(first.seen[kind], other.seen[kind]) == "" {
			t.Errorf("%s are the same although the seed is not", kind)
		}
	}
}

// The contributions of clients that do not hold the unit are compared. The second data set has other ratings of every other
// user and item than the unit's, and the server absorbs the sums of the first run, so that nothing else can differ.
func TestContributionsOfOthersAreCompared(t *testing.T) {
	for settings, want := range map[string]int{ // how many of the clients hold the unit
		"algorithm=lfl-sgdmf contribution=all-ratings rounds=1":   1,
		"algorithm=hfl-sgdmf rounds=1 accountant=rdp":             1,
		"algorithm=vfl-sgdmf unit=rating rounds=1 accountant=rdp": 1,
		"algorithm=vfl-sgdmf unit=user rounds=1 accountant=rdp":   Parties,
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			full := open(t, settings)
			own, err := owners(full)
			if err != nil {
				t.Fatal(err)
			}
			if len(own) != want {
				t.Errorf("clients %v hold the unit, want %d", own, want)
			}
			planted := *full.Data
			planted.Value = slices.Clone(planted.Value)
			item := full.Split.Train.Item[slices.Index(full.Split.Train.User, 0)]
			for k, x := range planted.Value {
				if planted.User[k] != 0 && planted.Item[k] != item {
					planted.Value[k] = float32(planted.Min+planted.Max) - x
				}
			}
			other, err := experiment.OpenSet(full.Asked, &planted)
			if err != nil {
				t.Fatal(err)
			}
			first, err := watch(t.Context(), full, own, nil)
			if err != nil {
				t.Fatal(err)
			}
			second, err := watch(t.Context(), other, own, first.sums)
			if err != nil {
				t.Fatal(err)
			}
			const messages = "messages and sizes"
			if got := different(first.seen[messages], second.seen[messages]); (got != "") != (want < full.Cohort.All()) {
				t.Errorf("%d clients of %d hold the unit; what others send differs: %q", want, full.Cohort.All(), got)
			}
		})
	}
}
