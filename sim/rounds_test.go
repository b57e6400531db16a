package sim

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// The configuration and the strategy both hold T. If they differ, faults and keys were made for
// another run.
func TestStrategyOfOtherRounds(t *testing.T) {
	for _, c := range []struct {
		planned uint64
		rounds  int
		want    string // "": the run ends well
	}{
		{3, 3, ""},
		{1, 3, "the strategy ended after 1 rounds; Config.Rounds is 3"},
		{0, 1, "the strategy ended after 0 rounds; Config.Rounds is 1"},
		{3, 2, "the strategy plans round 3; Config.Rounds is 2"},
	} {
		for _, real := range []bool{false, true} {
			trainers, _ := bits(4)
			strategy := newAdder(protocol.Cohort{Clients: 4}, exact(4), c.planned)
			out, err := Run(context.Background(), Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: c.rounds, Network: network, Real: real})
			switch {
			case c.want == "":
				if err != nil || len(out.Rounds) != c.rounds {
					t.Errorf("%d rounds planned of %d: %v", c.planned, c.rounds, err)
				}
			case !errors.Is(err, ErrRounds) || !strings.Contains(err.Error(), c.want):
				t.Errorf("%d rounds planned of %d (real sums: %t): error %v, want %q in it", c.planned, c.rounds, real, err, c.want)
			case len(strategy.sums) > c.rounds:
				t.Errorf("%d sums were released of %d", len(strategy.sums), c.rounds)
			}
		}
	}
}

// A strategy that skips a number has fewer rounds than it says.
func TestStrategyThatPassesOverAnRound(t *testing.T) {
	trainers, _ := bits(4)
	strategy := newAdder(protocol.Cohort{Clients: 4}, exact(4), 3)
	strategy.at = 1
	_, err := Run(context.Background(), Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 3, Network: network})
	if err == nil || !strings.Contains(err.Error(), "ended after 2 rounds; Config.Rounds is 3") {
		t.Errorf("two rounds, numbered 2 and 3, of three: %v", err)
	}
}
