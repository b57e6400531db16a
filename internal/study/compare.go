package study

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/results"
)

// Comparison compares two runs on the same test ratings, by user.
type Comparison struct {
	A          string     `json:"a"`
	B          string     `json:"b"`
	Metric     string     `json:"metric"` // test_rmse
	Users      int        `json:"users"`  // users with test ratings
	Ratings    int        `json:"ratings"`
	ValueA     float64    `json:"value_a"`
	ValueB     float64    `json:"value_b"`
	Difference float64    `json:"difference"` // B less A
	Interval   [2]float64 `json:"interval"`   // 95%, by the bootstrap
	P          float64    `json:"p"`          // two-sided, by the bootstrap
	Resamples  int        `json:"resamples"`
	BetterA    int        `json:"users_better_in_a"`
	BetterB    int        `json:"users_better_in_b"`
}

// Compare tests whether one run's RMSE is better than another's. Their test ratings must be the
// same. It draws users anew with replacement, resamples times, and measures both runs on the drawn
// users. It draws users and not ratings, because ratings of a user are alike. The result says how
// far the difference depends on the tested users, not how far on the seed of the training. The
// draws follow from seed.
func Compare(ctx context.Context, a, b string, resamples int, seed uint64) (*Comparison, error) {
	of := make([]map[int]errorSum, 2)
	var manifest [2]results.Manifest
	for i, dir := range []string{a, b} {
		f, err := results.Read(dir)
		if err != nil {
			return nil, err
		}
		if f.Summary.RatingSummary == nil {
			return nil, config.Errorf("%s ranks items; runs that predict ratings can be compared", dir)
		}
		manifest[i] = f.Manifest
		if i == 1 && manifest[0].SplitDigest != manifest[1].SplitDigest {
			return nil, config.Errorf("%s and %s were tested on different ratings (split %.8s and %.8s); give both the same data, seed and split", a, b, manifest[0].SplitDigest, manifest[1].SplitDigest)
		}
		if of[i], err = userErrors(ctx, dir); err != nil {
			return nil, err
		}
	}
	c := &Comparison{A: a, B: b, Metric: "test_rmse", Resamples: resamples}
	var users [][2]errorSum
	for u, x := range of[0] {
		users = append(users, [2]errorSum{x, of[1][u]})
		c.Ratings += x.n
	}
	// Maps have no order, and the bootstrap's draws are by place.
	slices.SortFunc(users, func(x, y [2]errorSum) int { return x[0].user - y[0].user })
	c.Users = len(users)
	c.measure(users, entropy.Public(seed, "bootstrap").IntN)
	return c, nil
}

// errorSum holds the sums over a user's test ratings.
type errorSum struct {
	user, n int
	squares float64
}

// userErrors returns the errors of a run's model by user.
func userErrors(ctx context.Context, dir string) (map[int]errorSum, error) {
	r, err := results.OpenRun(ctx, dir, "", nil)
	if err != nil {
		return nil, err
	}
	all := make(map[int]errorSum)
	r.EachError(func(user int, d float64) {
		s := all[user]
		s.user, s.n, s.squares = user, s.n+1, s.squares+d*d
		all[user] = s
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no test ratings", dir)
	}
	return all, nil
}

// measure fills in the rest; draw is a random number below n.
func (c *Comparison) measure(users [][2]errorSum, draw func(n int) int) {
	rmse := func(pick func(i int) int) (v [2]float64) {
		var n int
		for i := range users {
			u := users[pick(i)]
			n += u[0].n
			v[0] += u[0].squares
			v[1] += u[1].squares
		}
		return [2]float64{math.Sqrt(v[0] / float64(n)), math.Sqrt(v[1] / float64(n))}
	}
	v := rmse(func(i int) int { return i })
	c.ValueA, c.ValueB, c.Difference = v[0], v[1], v[1]-v[0]
	for _, u := range users {
		switch {
		case u[0].squares < u[1].squares:
			c.BetterA++
		case u[1].squares < u[0].squares:
			c.BetterB++
		}
	}
	if c.Difference == 0 && c.BetterA+c.BetterB == 0 {
		c.P = 1
		return
	}
	drawn := make([]float64, c.Resamples)
	below := 0
	for k := range drawn {
		d := rmse(func(int) int { return draw(len(users)) })
		drawn[k] = d[1] - d[0]
		if drawn[k] < 0 {
			below++
		}
	}
	slices.Sort(drawn)
	c.Interval = [2]float64{stat.Quantile(0.025, stat.Empirical, drawn, nil), stat.Quantile(0.975, stat.Empirical, drawn, nil)}
	// One is added to both counts, so that p is never 0 (Davison and Hinkley 1997, section 4.2).
	tail := min(below, c.Resamples-below)
	c.P = min(1, 2*float64(tail+1)/float64(c.Resamples+1))
}

// String returns the comparison in words.
func (c *Comparison) String() string {
	verdict := "cannot be told apart on these users"
	switch {
	case c.P < 0.05 && c.Difference < 0:
		verdict = "B is better"
	case c.P < 0.05:
		verdict = "A is better"
	}
	return fmt.Sprintf(`A  %s  RMSE %.4f
B  %s  RMSE %.4f

B - A  %+.4f, 95%% interval [%+.4f, %+.4f], p = %.4g
       %d test ratings of %d users: %d have the smaller error in A and %d in B; %d resamples of users
%s
`, c.A, c.ValueA, c.B, c.ValueB, c.Difference, c.Interval[0], c.Interval[1], c.P, c.Ratings, c.Users, c.BetterA, c.BetterB, c.Resamples, verdict)
}
