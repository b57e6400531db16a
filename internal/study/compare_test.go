package study

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/entropy"
)

// Two users have four resamples, equally likely: each user twice, and both in two orders. Expected
// values are by hand.
func TestBootstrapOfTwoUsers(t *testing.T) {
	users := [][2]errorSum{{{1, 1, 1}, {1, 1, 4}}, {{2, 1, 9}, {2, 1, 4}}}
	c := &Comparison{Resamples: 40_000}
	c.measure(users, entropy.Public(1, "test").IntN)
	both := 2 - math.Sqrt(5) // B: √((4+4)/2); A: √((1+9)/2)
	near(t, "difference", c.Difference, both, 1e-12)
	near(t, "lower end", c.Interval[0], -1, 1e-12) // the second user twice: 2 - 3
	near(t, "upper end", c.Interval[1], 1, 1e-12)  // the first twice: 2 - 1
	// A quarter of the resamples is above 0: p is twice that, within 5 deviations of 40,000 draws.
	near(t, "p", c.P, 0.5, 2*5*math.Sqrt(0.25*0.75/40_000))
	if c.BetterA != 1 || c.BetterB != 1 {
		t.Errorf("%d users are better off in A and %d in B, want 1 each", c.BetterA, c.BetterB)
	}
}

func TestARunAgainstItself(t *testing.T) {
	users := [][2]errorSum{{{1, 2, 1}, {1, 2, 1}}, {{2, 1, 9}, {2, 1, 9}}}
	c := &Comparison{Resamples: 1000}
	c.measure(users, entropy.Public(1, "test").IntN)
	if c.P != 1 || c.Difference != 0 || !strings.Contains(c.String(), "cannot be told apart") {
		t.Errorf("%+v", c)
	}
}
