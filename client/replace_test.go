package client_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// replacing is newPlan with noise that is replaced.
func replacing(round uint64) *protocol.Plan {
	p := newPlan(round)
	p.Releases[0].Noise.Kind = protocol.TwoRound
	return p
}

// replacingBench is a client that has sent what its noise changes by, for 4 survivors.
func replacingBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, secagg.DrawClient)
	b.plan = replacing
	b.script(round1)
	return b
}

// Where noise is replaced there is a stage after unmask, once.
func TestReplace(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.plan = replacing
	b.script(`
		answered 1 5  -> message-ignored
		announce 1    -> work
		answered 1 5  -> message-ignored
		run           -> advertise 1
		answered 1 5  -> message-ignored
		roster 1 5    -> shares 1
		answered 1 5  -> message-ignored
		delivery 1 5  -> charged 1, masked-input 1
		answered 1 5  -> message-ignored
		survivors 1 4 -> work
		answered 1 4  -> message-ignored
		run           -> unmask 1
		survivors 1 4 -> message-ignored
		answered 2 4  -> message-ignored
		answered 1 3  -> replacement 1
		answered 1 3  -> message-ignored
		answered 1 4  -> message-ignored
		announce 2    -> work`)
	if len(b.ledger.charges) != 1 || len(b.ledger.charges[0].Events) != 2 {
		t.Errorf("charged %+v, want one round of two releases", b.ledger.charges)
	}
}

// Where it is not, there is none.
func TestNothingToReplace(t *testing.T) {
	b := newBench(t, secagg.DrawClient)
	b.script(round1)
	b.script(`answered 1 4 -> message-ignored`)
}

// Fewer answers than 3 of 5 leave less noise in the second view than was charged;
// more than survivors cannot be.
func TestWrongAnswered(t *testing.T) {
	for _, count := range []int{-1, 0, 2, 5, math.MaxInt} {
		b := replacingBench(t)
		b.receive(&protocol.Answered{Round: 1, Count: count})
		if got := describe(t, b.last); got != "plan-refused" {
			t.Errorf("%d answered: %s, want plan-refused", count, got)
			continue
		}
		if count < 3 {
			var few *protocol.TooFew
			if !errors.As(b.err(), &few) {
				t.Fatalf("refused for %v, want TooFew", b.err())
			}
			if d := cmp.Diff(&protocol.TooFew{Round: 1, Stage: protocol.StageUnmask, Left: count, Required: 3}, few); d != "" {
				t.Errorf("reason (-want +got):\n%s", d)
			}
		}
		b.script(`
			answered 1 4 -> message-ignored
			announce 2   -> work`)
	}
}

// The next round comes before the stage does: the client was lost to it, and
// what it hears late it does not answer.
func TestReplaceOfAnRoundLeftBehind(t *testing.T) {
	b := replacingBench(t)
	b.script(`
		announce 2   -> work
		answered 1 4 -> message-ignored
		run          -> advertise 2
		answered 1 4 -> message-ignored`)
}

// The answer of a heavy sum is work, and what it refuses ends the client's part.
func TestHeavyReplace(t *testing.T) {
	for refuse, want := range map[protocol.Kind]string{protocol.Kinds: "replacement 1", protocol.KindAnswered: "plan-refused"} {
		b := heavyBench(t, refuse)
		b.plan = replacing
		b.script(`
			announce 1    -> work
			run           -> advertise 1
			roster 1 5    -> work
			run           -> shares 1
			delivery 1 5  -> work
			run           -> charged 1, masked-input 1
			survivors 1 5 -> work
			run           -> consistency 1
			answered 1 5  -> message-ignored
			quorum 1      -> work
			answered 1 5  -> message-ignored
			run           -> unmask 1
			answered 1 5  -> work
			answered 1 5  -> message-ignored
			run           -> ` + want + `
			answered 1 5  -> message-ignored`)
	}
}
