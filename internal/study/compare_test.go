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
	users := [][2]userSum{{{1, 1, 1}, {1, 1, 4}}, {{2, 1, 9}, {2, 1, 4}}}
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
	users := [][2]userSum{{{1, 2, 1}, {1, 2, 1}}, {{2, 1, 9}, {2, 1, 9}}}
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

// The differences come from Wilcoxon's example in the documentation of SciPy: W = 24 of 15
// differences, so z = (24 - 60)/√310 = -2.04466 and p = 0.04089 (R: wilcox.test, exact=FALSE,
// correct=FALSE).
func TestWilcoxon(t *testing.T) {
	d := []float64{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75}
	near(t, "p", wilcoxon(d), 0.04089, 5e-6)
	near(t, "p with zeros", wilcoxon(append(d, 0, 0)), 0.04089, 5e-6)
	// Ties by hand: |d| = 1, 1, 2 have ranks 1.5, 1.5, 3; the positive ones sum to 4.5, the mean is 3,
	// and the variance is 3*4*7/24 - (8-2)/48 = 3.375. So z = 1.5/1.83712 = 0.81650, p = 0.41422.
	near(t, "p with ties", wilcoxon([]float64{1, -1, 2}), 0.41422, 5e-6)
	near(t, "no difference", wilcoxon([]float64{0, 0}), 1, 0)
	far := make([]float64, 100)
	for i := range far {
		far[i] = float64(i + 1)
	}
	near(t, "p of a hundred gains", wilcoxon(far), 3.896559845e-18, 1e-26) // scipy.stats.wilcoxon(range(1, 101), mode="approx", correction=False)
}

// Three users have eight ways to swap, and lists of A 1, 1, 1 against 0, 0, 0 of B. Only the two
// ways that swap none or all have a difference as large: p = 1/4.
func TestRandomisation(t *testing.T) {
	var users [][2]userSum
	for u := range 3 {
		users = append(users, [2]userSum{{u, 1, 1}, {u, 1, 0}})
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
