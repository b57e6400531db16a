package sim

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// Losses are as frequent as asked, at every stage alike. A correct draw fails
// with probability below 1e-6: bounds are five standard deviations of the
// binomial law, in eight comparisons.
func TestDropoutRate(t *testing.T) {
	const clients, rounds = 2000, 50
	f := newFaultPlan(Faults{Dropout: 0.2, Stages: []protocol.Stage{0, 1, 2, 3, 4, 5, 6}}, rounds, 1)
	var counts [protocol.Stages + 1]int
	for c := range clients {
		for i := range rounds {
			counts[f.lost(protocol.ClientID(c), uint64(i+1))]++
		}
	}
	const n = clients * rounds
	for stage, share := range []float64{0.2 / 7, 0.2 / 7, 0.2 / 7, 0.2 / 7, 0.2 / 7, 0.2 / 7, 0.2 / 7, 0.8} {
		if sd := math.Sqrt(n * share * (1 - share)); math.Abs(float64(counts[stage])-n*share) > 5*sd {
			t.Errorf("%d losses at %s, %v ± %.0f expected", counts[stage], protocol.Stage(stage), n*share, sd)
		}
	}
}

// A client that is gone is in no round, and no other client's fate changes.
func TestGone(t *testing.T) {
	with, without := newFaultPlan(Faults{Leave: 0.3, Gone: []protocol.ClientID{3, 7}}, 10, 3), newFaultPlan(Faults{Leave: 0.3}, 10, 3)
	for c := range protocol.ClientID(10) {
		for i := range uint64(10) {
			want := without.lost(c, i+1)
			if c == 3 || c == 7 {
				want = protocol.StageAdvertise
			}
			if got := with.lost(c, i+1); got != want {
				t.Errorf("client %d is lost in round %d at %s, want %s", c, i+1, got, want)
			}
		}
	}
}

// A client that leaves stays away. A client that goes away is back after the set time, once.
func TestLeaveAndAway(t *testing.T) {
	const clients, rounds = 500, 20
	gone := func(f faultPlan, c int) (pattern string) {
		for i := range rounds {
			if f.lost(protocol.ClientID(c), uint64(i+1)) == protocol.StageAdvertise {
				pattern += "x"
			} else {
				pattern += "."
			}
		}
		return pattern
	}
	leave := newFaultPlan(Faults{Leave: 0.3}, rounds, 3)
	away := newFaultPlan(Faults{Away: 0.3, AwayRounds: 4}, rounds, 3)
	var left, were int
	for c := range clients {
		p := gone(leave, c)
		if rest := strings.TrimLeft(p, "."); strings.Contains(rest, ".") {
			t.Fatalf("client %d left for good and came back: %s", c, p)
		}
		if strings.Contains(p, "x") {
			left++
		}
		if p = strings.Trim(gone(away, c), "."); p != "" {
			were++
			if p != "xxxx" && !strings.HasSuffix(gone(away, c), p) {
				t.Fatalf("client %d was away for %q, four rounds expected", c, p)
			}
		}
	}
	// Binomial(500, 0.3): 150 ± 10.2; six deviations fail a correct draw with probability below 1e-8.
	for name, n := range map[string]int{"left": left, "were away": were} {
		if n < 89 || n > 211 {
			t.Errorf("%d of 500 clients %s, about 150 expected", n, name)
		}
	}
}

// A client's fate does not depend on how many others there are, nor on the
// faults that other streams draw.
func TestFatesAreKeyed(t *testing.T) {
	a := newFaultPlan(Faults{Dropout: 0.5, Stages: []protocol.Stage{2}}, 10, 1)
	b := newFaultPlan(Faults{Dropout: 0.5, Stages: []protocol.Stage{2}, Leave: 1e-12}, 10, 1)
	other := newFaultPlan(Faults{Dropout: 0.5, Stages: []protocol.Stage{2}}, 10, 2)
	same, differ := 0, 0
	for c := range protocol.ClientID(200) {
		if a.lost(c, 3) == b.lost(c, 3) {
			same++
		}
		if a.lost(c, 3) != other.lost(c, 3) {
			differ++
		}
	}
	if same != 200 {
		t.Errorf("%d of 200 fates changed with another fault's rate", 200-same)
	}
	if differ == 0 {
		t.Error("another seed gives the same fates")
	}
}

func TestFaultsValidate(t *testing.T) {
	err := Faults{Dropout: 1, Leave: -1, Away: 2, Stages: []protocol.Stage{9}}.Validate()
	for _, want := range []string{"dropout is 1", "leave is -1", "away is 2", "away-rounds is 0", "Stage(9) is not a stage"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate says %v; it must say %q", err, want)
		}
	}
	if err := (Faults{Dropout: 0.5}).Validate(); err == nil {
		t.Error("dropping out at no stage was accepted")
	}
}
