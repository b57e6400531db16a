package algorithm

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/lists"
)

// registry holds the algorithms in the order of their registration, regressions last.
var registry []Algorithm

// ranks is the default where feedback is implicit; "": the same as elsewhere.
var ranks string

// Register makes an algorithm known by its name, so that a configuration can name it. It returns an error
// for a name that another algorithm has, and for an algorithm that lacks name, help, units, rounds or rank.
// An algorithm that runs by its value needs no registration: see [Use].
func Register(a Algorithm) error {
	if err := complete(a.About()); err != nil {
		return err
	}
	if name := a.About().Name; Find(name) != nil {
		return fmt.Errorf("algorithm: %q is registered already; give a variant a name of its own, or run it by its value", name)
	}
	switch about := a.About(); {
	case about.Default && about.OnlyRanks:
		ranks = about.Name
	case about.Default:
		Name.Default = about.Name
	}
	registry = append(registry, a)
	slices.SortStableFunc(registry, func(a, b Algorithm) int { return rank(a) - rank(b) })
	return nil
}

// MustRegister is [Register] for a package's init: it panics with the error.
func MustRegister(a Algorithm) {
	if err := Register(a); err != nil {
		panic(err)
	}
}

// Use sets a configuration to run an algorithm by its value, registered or not. Two variants of one
// algorithm can so run in one process. It returns an error for an algorithm that lacks name, help, units,
// rounds or rank, and for a name that another algorithm is registered by.
func Use(c *config.Config, a Algorithm) error {
	about := a.About()
	if err := complete(about); err != nil {
		return err
	}
	if other := Find(about.Name); other != nil && !(reflect.ValueOf(other).Comparable() && other == a) {
		return fmt.Errorf("algorithm: another algorithm is registered as %q; give this one a name of its own", about.Name)
	}
	Name.Bind(c, about.Name, a)
	return nil
}

// complete refuses an algorithm that says too little of itself.
func complete(about *About) error {
	if about.Name == "" || about.Help == "" || len(about.Units) == 0 || about.Rounds == nil || about.Rank == nil {
		return fmt.Errorf("algorithm: %q: name, help, units, rounds and rank are needed", about.Name)
	}
	return nil
}

// runnable lists the names that a configuration may have.
func runnable(c config.Config) []string {
	names := Names()
	if a, ok := Name.Bound(c).(Algorithm); ok && !slices.Contains(names, a.About().Name) {
		names = append(names, a.About().Name)
	}
	return names
}

// rank has regressions listed behind what learns from ratings.
func rank(a Algorithm) int {
	if a.About().Profiles {
		return 1
	}
	return 0
}

// All lists the algorithms in the order of their registration, regressions last.
func All() []Algorithm { return slices.Clone(registry) }

// Names lists their names.
func Names() []string {
	return lists.Map(registry, func(a Algorithm) string { return a.About().Name })
}

// Find is the algorithm of a name; nil if there is none.
func Find(name string) Algorithm {
	i := slices.IndexFunc(registry, func(a Algorithm) bool { return a.About().Name == name })
	if i < 0 {
		return nil
	}
	return registry[i]
}

// Of is the algorithm of a configuration, which must name one.
func Of(c config.Config) Algorithm {
	if a, ok := Name.Bound(c).(Algorithm); ok {
		return a
	}
	a := Find(Name.Of(c))
	if a == nil {
		panic(fmt.Sprintf("algorithm: there is no %q: the configuration was not checked, or its family is not linked", Name.Of(c)))
	}
	return a
}
