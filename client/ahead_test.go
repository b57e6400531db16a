package client_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// aheadBench is of a client that sets up rounds ahead, up to number 4.
func aheadBench(t *testing.T, draw secagg.Draw) *bench {
	return benchOf(t, client.Config{Rounds: 4,
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, draw), nil }})
}

// heavyAheadBench is the same with answers that are work, and confirmation. From
// round 2 on a kind of message is refused.
func heavyAheadBench(t *testing.T, refuse protocol.Kind) *bench {
	return benchOf(t, client.Config{Rounds: 4, NewSum: func(s protocol.Setup) (client.Sum, error) {
		if s.Round > 1 {
			return &heavy{p: s, refuse: refuse}, nil
		}
		return &heavy{p: s, refuse: protocol.Kinds}, nil
	}})
}

const (
	// toInput1 and ahead1 are round 1 up to the masked input, and all of it.
	toInput1 = `
		announce 1   -> work
		run          -> advertise 1
		roster 1 5   -> shares 1
		delivery 1 5 -> charged 1, masked-input 1 + advertise 2`
	ahead1 = toInput1 + `
		survivors 1 5 + roster 2 5 -> work
		run                        -> unmask 1 + shares 2`
)

// From round 2 on there are two exchanges; the last one sets up nothing.
func TestSteadyState(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(ahead1)
	b.script(`
		announce 2 delivery 5      -> work
		run                        -> charged 2, masked-input 2 + advertise 3
		survivors 2 4 + roster 3 5 -> work
		run                        -> unmask 2 + shares 3
		announce 3 delivery 4      -> work
		run                        -> charged 3, masked-input 3 + advertise 4
		survivors 3 4 + roster 4 4 -> work
		run                        -> unmask 3 + shares 4
		announce 4 delivery 4      -> work
		run                        -> charged 4, masked-input 4
		survivors 4 4 + roster 5 4 -> work
		run                        -> unmask 4
		invite 5                   -> message-ignored
		announce 5 delivery 4      -> message-ignored
		final M                    -> work
		run                        -> session-ended`)
	if d := cmp.Diff([]uint64{1, 2, 3, 4}, b.trainer.asked); d != "" {
		t.Errorf("contributions (-want +got):\n%s", d)
	}
	if len(b.ledger.charges) != 4 {
		t.Errorf("%d charges, want one a round", len(b.ledger.charges))
	}
}

// Where the survivors are confirmed there are three, and answers are work.
func TestSteadyStateWithConfirmation(t *testing.T) {
	b := heavyAheadBench(t, protocol.Kinds)
	b.script(`
		announce 1                 -> work
		run                        -> advertise 1
		roster 1 5                 -> work
		run                        -> shares 1
		delivery 1 5               -> work
		run                        -> charged 1, masked-input 1 + advertise 2
		survivors 1 5 + roster 2 5 -> work
		run                        -> consistency 1
		quorum 1                   -> work
		run                        -> unmask 1 + shares 2
		announce 2 delivery 5      -> work
		run                        -> work
		run                        -> charged 2, masked-input 2 + advertise 3
		survivors 2 5 + roster 3 5 -> work
		run                        -> consistency 2
		quorum 2                   -> work
		run                        -> unmask 2 + shares 3`)
}

// Where the sum draws the noise nothing is work but the contribution.
func TestSteadyStateOfASumThatDrawsNoise(t *testing.T) {
	b := aheadBench(t, secagg.DrawSum)
	b.script(toInput1)
	b.script(`
		survivors 1 5 + roster 2 5 -> unmask 1 + shares 2
		announce 2 delivery 5      -> work
		run                        -> charged 2, masked-input 2 + advertise 3`)
}

// A contribution that is unusable is zero here as well, and only its owner hears of it.
func TestUnusableInputOfASetUpRound(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(ahead1)
	b.trainer.err = errors.New("no such row")
	b.script(`
		announce 2 delivery 5 -> work
		run                   -> charged 2, masked-input 2 + advertise 3, input-unusable`)
}

// A party that noises its own training is charged when it takes the plan up,
// however it was set up.
func TestOwnNoiseOfASetUpRound(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(ahead1)
	b.plan = ownPlan
	b.script(`
		announce 2 delivery 5      -> charged 2, work
		run                        -> masked-input 2 + advertise 3
		survivors 2 5 + roster 3 5 -> unmask 2 + shares 3`)
	b.ledger.left = 0
	b.script(`
		announce 3 delivery 5 -> refusal 3, plan-refused
		announce 3            -> refusal 3, plan-refused
		invite 4              -> advertise 4 ahead`)
}

// A plan that cannot be paid for when it is taken up ends what was under way before
// it, and what is computed for that goes nowhere.
func TestOwnNoiseOverBudgetInMidRound(t *testing.T) {
	b := heavyAheadBench(t, protocol.Kinds)
	b.script(`
		announce 1   -> work
		run          -> advertise 1
		roster 1 5   -> work
		run          -> shares 1
		delivery 1 5 -> work`)
	b.plan = ownPlan
	b.ledger.left = 0
	b.script(`announce 2 -> refusal 2, plan-refused`)
	b.ledger.left = 100
	b.script(`run ->`)
}

// A client that is set up for it accepts a plan with a delivery, and no other client does. It
// leaves the work under way.
func TestDeliveryWithoutASetup(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(`
		announce 1 delivery 5      -> message-ignored
		announce 1                 -> work
		announce 2 delivery 5      -> message-ignored
		run                        -> advertise 1
		announce 2 delivery 5      -> message-ignored
		roster 1 5                 -> shares 1
		announce 1 delivery 5      -> plan-refused
		delivery 1 5               -> charged 1, masked-input 1 + advertise 2
		announce 2 delivery 5      -> message-ignored
		survivors 1 5 + roster 2 5 -> work
		announce 2 delivery 5      -> message-ignored
		run                        -> unmask 1 + shares 2
		announce 3 delivery 5      -> message-ignored
		delivery 2 5               -> message-ignored
		survivors 2 5              -> message-ignored
		quorum 2                   -> message-ignored
		announce 2 delivery 5      -> work
		announce 3 delivery 5      -> message-ignored
		run                        -> charged 2, masked-input 2 + advertise 3`)
}

// A setup serves plans of that session and cohort alone.
func TestDeliveryForAnotherSetup(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*protocol.Plan)
		want   string
	}{
		"tolerance":        {func(p *protocol.Plan) { p.Cohort.Tolerance = 0.2 }, "message-ignored"},
		"colluders":        {func(p *protocol.Plan) { p.Cohort.Colluders = 0 }, "message-ignored"},
		"clients":          {func(p *protocol.Plan) { p.Cohort.Clients = 6 }, "message-ignored"},
		"session":          {func(p *protocol.Plan) { p.Session[0]++ }, "refusal 2, plan-refused"},
		"nothing released": {func(p *protocol.Plan) { p.Releases = nil }, "refusal 2, plan-refused"},
		"no noise":         {func(p *protocol.Plan) { p.Releases[0].Noise = protocol.Noise{} }, "refusal 2, plan-refused"},
	} {
		t.Run(name, func(t *testing.T) {
			b := aheadBench(t, secagg.DrawClient)
			b.script(ahead1)
			b.plan = func(i uint64) *protocol.Plan {
				p := newPlan(i)
				c.change(p)
				return p
			}
			b.script("announce 2 delivery 5 -> " + c.want)
			b.plan = newPlan
			b.script(`announce 2 delivery 5 -> work`)
		})
	}
}

// A client accepts one plan of a round, in one setup or the other: two would be two masked inputs.
func TestOneSetupOfAnRound(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(ahead1)
	b.script(`
		announce 2 delivery 5 -> work
		announce 2            -> plan-refused
		announce 2 delivery 5 -> plan-refused
		run                   -> charged 2, masked-input 2 + advertise 3
		announce 2            -> plan-refused
		announce 2 delivery 5 -> plan-refused
		invite 2              -> message-ignored`)
	b = aheadBench(t, secagg.DrawClient)
	b.script(ahead1)
	b.script(`
		announce 2            -> work
		announce 2 delivery 5 -> plan-refused
		run                   -> advertise 2
		announce 2 delivery 5 -> plan-refused
		delivery 2 5          -> message-ignored
		roster 2 5            -> shares 2
		announce 2 delivery 5 -> plan-refused
		invite 2              -> message-ignored
		delivery 2 5          -> charged 2, masked-input 2 + advertise 3
		delivery 2 5          -> message-ignored`)
}

// The rest of a setup is of no use if no plan came for it.
func TestPlanSkipsTheSetup(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(ahead1)
	b.script(`
		announce 3            -> work
		announce 2 delivery 5 -> refusal 2, plan-refused
		roster 2 5            -> message-ignored
		run                   -> advertise 3
		roster 3 5            -> shares 3`)
	b = aheadBench(t, secagg.DrawClient)
	b.script(toInput1)
	b.script(`
		announce 3 -> work
		run        -> advertise 3
		roster 2 5 -> message-ignored`)
}

// The session's end is the end of what was set up.
func TestFinalAhead(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(toInput1)
	b.script(`
		final M    -> work
		run        -> session-ended
		roster 2 5 -> message-ignored
		invite 3   -> message-ignored`)
}

// A roster of the next round that is malformed or refused is not answered. The present round
// continues, and the next can be set up with its plan.
func TestBadRosterAhead(t *testing.T) {
	anew := func(b *bench) {
		b.script(`
			roster 2 5            -> message-ignored
			announce 2 delivery 5 -> message-ignored
			announce 2            -> work
			run                   -> advertise 2`)
	}
	b := heavyAheadBench(t, protocol.KindRoster)
	b.script(`
		announce 1                 -> work
		run                        -> advertise 1
		roster 1 5                 -> work
		run                        -> shares 1
		delivery 1 5               -> work
		run                        -> charged 1, masked-input 1 + advertise 2
		survivors 1 5 + roster 2 5 -> work
		run                        -> consistency 1
		quorum 1                   -> work
		run                        -> unmask 1`)
	anew(b)
	// By itself, the same.
	b = heavyAheadBench(t, protocol.KindRoster)
	b.script(`
		announce 1    -> work
		run           -> advertise 1
		roster 1 5    -> work
		run           -> shares 1
		delivery 1 5  -> work
		run           -> charged 1, masked-input 1 + advertise 2
		roster 2 5    -> work
		run           -> plan-refused
		survivors 1 5 -> work
		run           -> consistency 1
		quorum 1      -> work
		run           -> unmask 1`)
	anew(b)
	// One of another round is not taken for it.
	for _, other := range []string{"1", "3"} {
		b = aheadBench(t, secagg.DrawClient)
		b.script(toInput1)
		b.script("survivors 1 5 + roster " + other + " 5 -> work")
		b.script(`
			run        -> unmask 1
			roster 2 5 -> shares 2 ahead`)
	}
}

// Rosters and deliveries by themselves, to a client that is in the round: it
// answers each stage of a setup once, wherever it comes from.
func TestSetupBesideTheRound(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(toInput1)
	b.script(`
		roster 2 5                 -> shares 2 ahead
		roster 2 5                 -> message-ignored
		survivors 1 5 + roster 2 4 -> work
		roster 2 5                 -> message-ignored
		run                        -> unmask 1
		roster 2 5                 -> message-ignored
		delivery 2 5               -> message-ignored
		announce 2 delivery 5      -> work
		delivery 2 5               -> message-ignored
		run                        -> charged 2, masked-input 2 + advertise 3
		delivery 2 5               -> message-ignored`)
	// A setup does not advance while an answer is composed that it is part of.
	b = aheadBench(t, secagg.DrawClient)
	b.script(toInput1)
	b.script(`
		roster 2 5                 -> shares 2 ahead
		survivors 1 5 + roster 2 5 -> work
		announce 2 delivery 5      -> message-ignored
		run                        -> unmask 1
		announce 2 delivery 5      -> work`)
	// Survivors without a roster are answered without shares.
	b = aheadBench(t, secagg.DrawClient)
	b.script(toInput1)
	b.script(`
		survivors 1 5 -> work
		run           -> unmask 1
		roster 2 5    -> shares 2 ahead`)
	// A plan that comes before the survivors ends what is before it.
	b = aheadBench(t, secagg.DrawClient)
	b.script(toInput1)
	b.script(`
		roster 2 5            -> shares 2 ahead
		announce 2 delivery 5 -> work
		survivors 1 5         -> message-ignored
		run                   -> charged 2, masked-input 2 + advertise 3
		survivors 1 5         -> message-ignored`)
}

// Every answered message is repeated: of the round, and of the previous round.
func TestEverythingTwice(t *testing.T) {
	b := heavyAheadBench(t, protocol.Kinds)
	b.script(`
		announce 1   -> work
		run          -> advertise 1
		roster 1 5   -> work
		run          -> shares 1
		delivery 1 5 -> work
		run          -> charged 1, masked-input 1 + advertise 2`)
	round1 := []string{"announce 1", "roster 1 5", "delivery 1 5"}
	again := func(messages ...string) {
		t.Helper()
		for _, m := range messages {
			switch got := describe(t, b.command(m)); got {
			case "message-ignored", "plan-refused", "refusal 1, plan-refused": // the aggregator ignores the refusal of a round that is over
			default:
				t.Errorf("%s once more: %s", m, got)
			}
		}
	}
	again(round1...)
	b.script(`survivors 1 5 + roster 2 5 -> work`)
	round1 = append(round1, "survivors 1 5 + roster 2 5", "survivors 1 5", "roster 2 5")
	again(round1...)
	b.script(`run -> consistency 1`)
	again("survivors 1 5 + roster 2 5")
	b.script(`quorum 1 -> work`)
	round1 = append(round1, "quorum 1")
	again(round1...)
	b.script(`run -> unmask 1 + shares 2`)
	again(round1...)
	b.script(`announce 2 delivery 5 -> work`)
	again(append(round1, "announce 2 delivery 5")...)
	b.script(`run -> work`)
	again(append(round1, "announce 2 delivery 5", "delivery 2 5")...)
	b.script(`run -> charged 2, masked-input 2 + advertise 3`)
	again(append(round1, "announce 2 delivery 5", "delivery 2 5")...)
	if len(b.ledger.charges) != 2 || len(b.works) != 0 {
		t.Errorf("%d charges and %d works left, want 2 and none", len(b.ledger.charges), len(b.works))
	}
}

// A setup ends with a round that the client leaves: the aggregator has no message for the shares.
func TestLeavingEndsTheSetup(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(toInput1)
	b.script(`
		survivors 1 2         -> plan-refused
		roster 2 5            -> message-ignored
		announce 2 delivery 5 -> message-ignored
		announce 2            -> work`)
}

// A plan whose delivery is no good uses the round up, and no budget: what is
// never sent is not charged.
func TestBadDeliveryIsNotCharged(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.script(ahead1)
	b.script(`
		announce 2 delivery 2 -> work
		run                   -> plan-refused
		delivery 2 5          -> message-ignored
		roster 3 5            -> message-ignored
		announce 2 delivery 5 -> refusal 2, plan-refused
		announce 2            -> refusal 2, plan-refused`)
	if len(b.ledger.charges) != 1 {
		t.Errorf("%d charges, want that of round 1", len(b.ledger.charges))
	}
	b = heavyAheadBench(t, protocol.KindDelivery)
	b.script(`
		invite 2              -> advertise 2 ahead
		roster 2 5            -> work
		run                   -> shares 2 ahead
		announce 2 delivery 5 -> work
		run                   -> work
		run                   -> plan-refused
		roster 3 5            -> message-ignored
		invite 4              -> advertise 4 ahead`)
	if len(b.ledger.charges) != 0 {
		t.Errorf("%d charges, want none", len(b.ledger.charges))
	}
}

// A client that cannot pay sends neither its input nor keys for the next round.
func TestOverBudgetAhead(t *testing.T) {
	b := aheadBench(t, secagg.DrawClient)
	b.ledger.left = 1
	b.script(ahead1)
	b.script(`
		announce 2 delivery 5 -> work
		run                   -> plan-refused`)
	if !errors.Is(b.err(), errSpent) {
		t.Errorf("refused for %v, want the ledger's reason", b.err())
	}
	b.script(`roster 3 5 -> message-ignored`)
}

// A client that restarted sits out what it took up, however it is asked, and is in
// the next: what it dealt for that before is gone.
func TestRestarted(t *testing.T) {
	b := benchOf(t, client.Config{Rounds: 4, Last: 2,
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawClient), nil }})
	b.script(`
		announce 2                 -> refusal 2, plan-refused
		announce 2 delivery 5      -> refusal 2, plan-refused
		invite 2                   -> message-ignored
		survivors 2 5 + roster 3 5 -> message-ignored
		roster 3 5                 -> message-ignored
		announce 3 delivery 5      -> message-ignored
		invite 3                   -> advertise 3 ahead
		roster 3 5                 -> shares 3 ahead
		announce 3 delivery 5      -> work`)
}
