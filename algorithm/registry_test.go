package algorithm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
)

// named is an algorithm of which only what is said of it is looked at.
type named struct {
	algorithm.Algorithm
	about algorithm.About
}

func (n named) About() *algorithm.About { return &n.about }

// A name that is taken, and an algorithm that says too little, are mistakes of the program,
// and leave the registry as it was.
func TestRegisterRefuses(t *testing.T) {
	before := algorithm.Names()
	taken := *algorithm.All()[0].About()
	nameless, unitless := taken, taken
	nameless.Name, unitless.Name, unitless.Units = "", "new", nil
	for reason, about := range map[string]algorithm.About{
		"is registered twice": taken, `"": name, help`: nameless, `"new": name, help, units`: unitless,
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, reason) {
					t.Errorf("it panics with %q, want %q in it", got, reason)
				}
			}()
			algorithm.Register(named{about: about})
		}()
	}
	if after := algorithm.Names(); !slices.Equal(after, before) {
		t.Errorf("algorithms are %v, were %v", after, before)
	}
}
