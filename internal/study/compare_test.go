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
	users := [][2]userSum{{{1, 1}, {1, 4}}, {{1, 9}, {1, 4}}}
	c := &Comparison{Metric: rmse, Resamples: 40_000}
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
	users := [][2]userSum{{{2, 1}, {2, 1}}, {{1, 9}, {1, 9}}}
	c := &Comparison{Metric: rmse, Resamples: 1000}
	c.measure(users, entropy.Public(1, "test").IntN)
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if c.P != 1 || c.Difference != 0 || !strings.Contains(b.String(), "cannot be told apart") {
		t.Errorf("%+v", c)
	}
}

// Three users have eight ways to swap, and lists of A 1, 1, 1 against 0, 0, 0 of B. Only the two
// ways that swap none or all have a difference as large: p = 1/4.
func TestRandomisation(t *testing.T) {
	var users [][2]userSum
	for range 3 {
		users = append(users, [2]userSum{{1, 1}, {1, 0}})
	}
	c := &Comparison{Metric: "hit@10", Resamples: 40_000}
	c.measure(users, entropy.Public(1, "test").IntN)
	c.test(users, entropy.Public(2, "test").IntN)
	near(t, "p", c.PSwap, 0.25, 5*math.Sqrt(0.25*0.75/40_000))
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if c.Difference != -1 || c.BetterA != 3 || !strings.Contains(b.String(), "A is better.") {
		t.Errorf("%+v", c)
	}
}
