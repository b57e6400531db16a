package training_test

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/opened"
)

// TestNoiseIsForTurns checks the noise where clients take turns. A round that asks 240 of 600 clients has every client in 12 of
// 30 rounds. Noise and statement are the same as for 12 rounds with all clients. A run without turns states none.
func TestNoiseIsForTurns(t *testing.T) {
	const lfl = "data=synthetic:small algorithm=lfl-sgdmf epsilon=4 "
	turns, all := opened.Experiment(t, lfl+"rounds=30 cohort.size=200"), opened.Experiment(t, lfl+"rounds=12")
	if c := turns.Cohort; c.Clients != 240 || c.Goal != 200 || c.Enrolled != 600 {
		t.Fatalf("the cohort is %+v, want 200 of 240 of 600", c)
	}
	if is, want := turns.Schedule.Noise().Variance, all.Schedule.Noise().Variance; is != want || want == 0 {
		t.Errorf("the variance is %v, that of 12 rounds of all %v", is, want)
	}
	for attempts, rounds := range map[int]int{0: 0, 1: 1, 3: 2, 5: 2, 6: 3, 30: 12} { // ⌈attempts·240/600⌉
		is, err := turns.SpentAtMost(attempts)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := all.SpentAtMost(rounds); err != nil || is.Epsilon != want.Epsilon {
			t.Errorf("%d attempts cost %v at the most, %d rounds of all %v (%v)", attempts, is.Epsilon, rounds, want.Epsilon, err)
		}
	}
	s := turns.Statement(dp.Result{Epsilon: 4, Accountant: dp.GDPSkellam})
	if s.Turns != 12 || s.Rounds != 30 || !strings.Contains(s.String(), "turns=12/30") {
		t.Errorf("stated is %s", s)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if s := all.Statement(dp.Result{Epsilon: 4, Accountant: dp.GDPSkellam}); s.Turns != 0 || strings.Contains(s.String(), "turns") {
		t.Errorf("without turns stated is %s", s)
	}
	if turns.Session() == opened.Experiment(t, lfl+"rounds=30 cohort.size=200 cohort.over=1.19").Session() {
		t.Error("runs that ask different clients are of one session")
	}
}

// TestNoClientTooManyIsAsked: a cohort of 50 that asks 1.1 times as many asks 55, and of 25 with 1.12 asks 28. In float64 the products
// are 55.00000000000001 and 28.000000000000004.
func TestNoClientTooManyIsAsked(t *testing.T) {
	for settings, want := range map[string]int{"cohort.size=50 cohort.over=1.1": 55, "cohort.size=25 cohort.over=1.12": 28, "cohort.size=10 cohort.over=1.11": 12} {
		if c := opened.Experiment(t, "data=synthetic:small algorithm=fmf-lfl colluders=0 "+settings).Cohort; c.Clients != want {
			t.Errorf("%s: %d clients are asked, want %d", settings, c.Clients, want)
		}
	}
}

// TestNoTurns checks that an algorithm without the key cohort.size takes no turns, whatever is set.
func TestNoTurns(t *testing.T) {
	if c := opened.Experiment(t, "data=synthetic:small algorithm=dpals cohort.size=200").Cohort; c.Enrolled != 0 || c.Clients != 600 {
		t.Errorf("the cohort is %+v", c)
	}
}
