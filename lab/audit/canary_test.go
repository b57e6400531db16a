package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/opened"
)

// The oracle adds up probabilities of a binomial law by their definition. With δ = 0 the chance is the chance of
// v or more right guesses. δ adds 2mδ times the largest mean of the probabilities just below v (theorem 5.2).
func TestChance(t *testing.T) {
	pmf := func(k, n int, p float64) float64 {
		x := math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
		for i := range k {
			x *= float64(n-i) / float64(i+1)
		}
		return x
	}
	for _, c := range []struct {
		m, r, v        int
		epsilon, delta float64
	}{{10, 5, 5, 1, 0}, {10, 5, 3, 1, 0}, {40, 20, 15, 0.5, 1e-3}, {100, 30, 30, 2, 1e-4}, {100, 30, 1, 2, 1e-4}} {
		q := math.Exp(c.epsilon) / (1 + math.Exp(c.epsilon))
		var want, alpha float64
		for k := c.v; k <= c.r; k++ {
			want += pmf(k, c.r, q)
		}
		for i := 1; i <= c.v; i++ {
			var below float64
			for k := c.v - i; k < c.v; k++ {
				below += pmf(k, c.r, q)
			}
			alpha = max(alpha, below/float64(i))
		}
		want = min(1, want+2*float64(c.m)*c.delta*alpha)
		if got := chance(c.m, c.r, c.v, c.epsilon, c.delta); math.Abs(got-want) > 1e-9 {
			t.Errorf("%+v: %.10f, want %.10f", c, got, want)
		}
	}
}

// The bound of randomized response exceeds the known ε in at most 5% of 1,000 trials. At exactly 5%, 62 or more
// would be seen once in 25 times, and 24 of 300 once in 60. The seed is fixed.
func TestGuessesAreRarelyTooGood(t *testing.T) {
	const m, epsilon = 200, 1.
	trials, most := effort.Of(300, 300, 1000), effort.Of(23, 23, 62)
	q := math.Exp(epsilon) / (1 + math.Exp(epsilon))
	r := rand.New(rand.NewPCG(3, 4))
	high, useful := 0, 0
	for range trials {
		list := make([]canary, m)
		for i := range list {
			list[i].included = r.IntN(2) == 1
			right := r.Float64() < q
			list[i].score = r.Float64()
			if right != list[i].included {
				list[i].score--
			}
		}
		var report CanaryReport
		report.attack("model", list)
		if b := report.Attacks[0].Bound; b > epsilon {
			high++
		} else if b > 0 {
			useful++
		}
	}
	if high > most || useful < trials/2 {
		t.Errorf("%d of %d bounds are too high, %d others above 0", high, trials, useful)
	}
}

// With next to no noise the sums give canaries away, and what claims an ε of 1 for that is
// caught; with noise for an ε of 1 nothing is.
func TestCanaries(t *testing.T) {
	e := opened.Experiment(t, "epsilon=1000 contribution=all-ratings")
	r, err := Canaries(t.Context(), e, 300)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if len(r.Attacks) != 2 || r.Attacks[1].From != "sums" || r.Attacks[1].Bound < 2 {
		t.Fatalf("attacks are %+v, want one by sums that bounds epsilon by 2 at the least", r.Attacks)
	}
	if r.Err() != nil {
		t.Errorf("an honest run is accused: %v", r.Err())
	}
	if r.Claimed = 1; r.Err() == nil {
		t.Error("a claim of 1 is not caught")
	}
	if r, err = Canaries(t.Context(), opened.Experiment(t, "algorithm=vfl-sgdmf rounds=3 epsilon=1"), 200); err != nil || r.Err() != nil || len(r.Attacks) != 1 {
		t.Errorf("parties: %+v, %v", r, err)
	}
	for _, n := range []int{10, 601} {
		if _, err := Canaries(t.Context(), e, n); err == nil {
			t.Errorf("%d canaries of 600 users are taken", n)
		}
	}
}

// A run with canaries is for gross faults. Each row has 300 canaries of 600 users, and claims the ε of the same settings without the
// fault. Noise of a factor of its deviation is noise for an ε that normal laws give. The table in audit.md has the counts of 20 seeds.
func TestCanariesFindGrossFaults(t *testing.T) {
	weak := func(claim, factor float64) string {
		const delta = 1e-5
		return fmt.Sprintf(" epsilon=%v", dp.GaussianEpsilon(dp.GaussianMu(claim, delta)/factor, delta))
	}
	for _, c := range []struct {
		name, settings string
		claim          float64
		found          bool
	}{
		{"a tenth of the noise", "algorithm=private-item-bias" + weak(1, 0.1), 1, true},
		{"a tenth of the noise", "algorithm=lfl-sgdmf contribution=all-ratings" + weak(1, 0.1), 1, true},
		{"a tenth of the noise", "algorithm=ssp-c" + weak(1, 0.1), 1, true},
		{"noise at 0.7", "algorithm=private-item-bias" + weak(1, 0.7), 1, false},
		{"noise at 0.7", "algorithm=lfl-sgdmf contribution=all-ratings" + weak(1, 0.7), 1, false},
		{"noise at 0.7", "algorithm=dpals" + weak(1, 0.7), 1, false},
		{"noise at 0.7", "algorithm=vfl-sgdmf rounds=3" + weak(1, 0.7), 1, false},
		{"noise at 0.7", "algorithm=hfl-sgdmf rounds=3" + weak(1, 0.7), 1, false},
		{"an empty user sends something", "algorithm=broken-decay epsilon=5", 5, false},
		{"replaced noise", "algorithm=lfl-sgdmf noise=replace contribution=all-ratings epsilon=1", 1, false},
	} {
		t.Run(c.name+", "+c.settings, func(t *testing.T) {
			effort.LongOnly(t, "takes 20 runs")
			t.Parallel()
			const seeds = 20
			caught, largest := 0, 0.
			for seed := range seeds {
				r, err := Canaries(t.Context(), opened.Experiment(t, fmt.Sprintf("%s seed=%d", c.settings, seed+1)), 300)
				if err != nil {
					t.Fatal(err)
				}
				r.Claimed = c.claim
				for _, a := range r.Attacks {
					largest = max(largest, a.Bound)
				}
				if r.Err() != nil {
					caught++
				}
			}
			t.Logf("caught %d of %d seeds; the largest bound is %.3g", caught, seeds, largest)
			const most = 3 // of 20 seeds without a fault, 5 in 100 accuse; 4 do so with a chance of 0.016
			if c.found && caught < seeds || !c.found && caught > most {
				t.Errorf("caught %d of %d seeds, want all: %v", caught, seeds, c.found)
			}
		})
	}
	for _, name := range []string{"broken-clip", "broken-unclipped"} { // the client refuses its vector, which ends the run
		if _, err := Canaries(t.Context(), opened.Experiment(t, "algorithm="+name+" epsilon=5"), 300); err == nil || !strings.Contains(err.Error(), "its L2 norm is above the 1 declared") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
