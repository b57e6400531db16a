package server_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// aheadBench has an aggregator of n clients; lose of them may be lost. It sets up rounds 2 to 9
// ahead, and they may begin without the share sitOut of the clients.
func aheadBench(t *testing.T, n, lose int, sitOut float64) *bench {
	return benchOf(t, lose, aggregator.Config{Clients: n, Rounds: 9, SitOut: sitOut})
}

// The steady state is two exchanges with each client. The first round is set up
// in two more, and the last one sets up nothing.
func TestSteadyState(t *testing.T) {
	b := benchOf(t, 0, aggregator.Config{Clients: 3, Rounds: 3})
	b.script(`
		open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
		0-2 advertise 1                  -> roster(3) 0,1,2, wake 10s
		0-2 share 1                      -> delivery(3) 0,1,2, wake 10s
		0-1 masked-input 1 + advertise 2 ->
		2 masked-input 1 + advertise 2   -> survivors(3) + roster(3) of 2 0,1,2, wake 10s
		0-1 unmask 1 + share 2           ->
		2 unmask 1 + share 2             -> work
		run                              -> result 1 [[1 1 1]] of 3, 3 answered, round-summed
		tick 4s                          ->
		open 2                           -> announce(2) + delivery(3) 0,1,2, wake 14s, round-opened
		tick 10s                         ->
		0-2 masked-input 2 + advertise 3 -> survivors(3) + roster(3) of 3 0,1,2, wake 20s
		0-2 unmask 2 + share 3           -> work
		run                              -> result 2 [[1 1 1]] of 3, 3 answered, round-summed
		open 3                           -> announce(3) + delivery(3) 0,1,2, wake 20s, round-opened
		0-2 masked-input 3               -> survivors(3) 0,1,2, wake 20s
		0-2 unmask 3                     -> work
		run                              -> result 3 [[1 1 1]] of 3, 3 answered, round-summed
		open 4                           -> announce(4) 0,1,2, wake 20s, round-opened
		final M                          -> final 0,1,2`)
}

// confirming is a sum whose survivors are confirmed.
type confirming struct {
	*secagg.Ideal
	round uint64
}

func (confirming) Confirms() bool { return true }

func (s confirming) Next(closed protocol.Stage, to protocol.ClientID) protocol.Message {
	if closed == protocol.StageConsistency {
		return &protocol.Quorum{Round: s.round}
	}
	return s.Ideal.Next(closed, to)
}

func newConfirming(s protocol.Setup) (aggregator.Sum, error) {
	return confirming{secagg.NewIdeal(s, secagg.DrawClient, entropy.Source{}, new(noise.Tables)), s.Round}, nil
}

// With confirmed survivors there are three exchanges: the roster comes with the survivors, the
// shares with the answer to unmask. A client that has not confirmed deals no more shares.
func TestSteadyStateWithConfirmation(t *testing.T) {
	b := benchOf(t, 1, aggregator.Config{Clients: 4, Rounds: 3, SitOut: 0.25, NewSum: newConfirming})
	b.script(`
		open 1                           -> announce(1) 0,1,2,3, wake 10s, round-opened
		0-3 advertise 1                  -> roster(4) 0,1,2,3, wake 10s
		0-3 share 1                      -> delivery(4) 0,1,2,3, wake 10s
		0-3 masked-input 1 + advertise 2 -> survivors(4) + roster(4) of 2 0,1,2,3, wake 10s
		0-3 consistency 1                -> quorum 0,1,2,3, wake 10s
		0-3 unmask 1 + share 2           -> work
		run                              -> result 1 [[1 1 1 1]] of 4, 4 answered, round-summed
		open 2                           -> announce(2) + delivery(4) 0,1,2,3, wake 10s, round-opened
		0-3 masked-input 2 + advertise 3 -> survivors(4) + roster(4) of 3 0,1,2,3, wake 10s
		0-2 consistency 2                ->
		tick 10s                         -> quorum 0,1,2, wake 20s, lost 3 consistency
		3 unmask 2 + share 3             -> message-ignored
		0-2 unmask 2 + share 3           -> work
		run                              -> result 2 [[1 1 1 1]] of 4, 3 answered, round-summed
		open 3                           -> announce(3) + delivery(3) 0,1,2, wake 20s, round-opened`)
}

// setUp goes through the first two stages of round 1.
func (b *bench) setUp() {
	b.t.Helper()
	b.command("open 1")
	b.command(fmt.Sprintf("0-%d advertise 1", b.n-1))
	b.command(fmt.Sprintf("0-%d share 1", b.n-1))
}

// setUpAhead goes through round 1, with the setup of the next.
func (b *bench) setUpAhead() {
	b.t.Helper()
	b.setUp()
	b.command(fmt.Sprintf("0-%d masked-input 1 + advertise 2", b.n-1))
	b.command(fmt.Sprintf("0-%d unmask 1 + share 2", b.n-1))
	b.command("run")
}

// If a client is lost at any stage, and no client may sit out, the next round is set up with every
// client.
func TestLostClientBringsTheSetupBack(t *testing.T) {
	for name, script := range map[string]string{
		"advertise": `
			open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
			0-1 advertise 1                  ->
			tick 10s                         -> roster(2) 0,1, wake 20s, lost 2 advertise
			0-1 share 1                      -> delivery(2) 0,1, wake 20s
			0-1 masked-input 1 + advertise 2 -> survivors(2) 0,1, wake 20s
			0-1 unmask 1 + share 2           -> work`,
		"share": `
			open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
			0-2 advertise 1                  -> roster(3) 0,1,2, wake 10s
			0-1 share 1                      ->
			tick 10s                         -> delivery(2) 0,1, wake 20s, lost 2 share
			0-1 masked-input 1 + advertise 2 -> survivors(2) 0,1, wake 20s
			0-1 unmask 1 + share 2           -> work`,
		"masked-input": `
			open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
			0-2 advertise 1                  -> roster(3) 0,1,2, wake 10s
			0-2 share 1                      -> delivery(3) 0,1,2, wake 10s
			0-1 masked-input 1 + advertise 2 ->
			tick 10s                         -> survivors(2) 0,1, wake 20s, lost 2 masked-input
			0-1 unmask 1 + share 2           -> work`,
		"unmask": `
			open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
			0-2 advertise 1                  -> roster(3) 0,1,2, wake 10s
			0-2 share 1                      -> delivery(3) 0,1,2, wake 10s
			0-2 masked-input 1 + advertise 2 -> survivors(3) + roster(3) of 2 0,1,2, wake 10s
			0-1 unmask 1 + share 2           ->
			tick 10s                         -> work, lost 2 unmask`,
		"rider of masked-input": `
			open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
			0-2 advertise 1                  -> roster(3) 0,1,2, wake 10s
			0-2 share 1                      -> delivery(3) 0,1,2, wake 10s
			0-1 masked-input 1 + advertise 2 ->
			2 masked-input 1                 -> survivors(3) 0,1,2, wake 10s
			0-2 unmask 1 + share 2           -> work`,
		"rider of unmask": `
			open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
			0-2 advertise 1                  -> roster(3) 0,1,2, wake 10s
			0-2 share 1                      -> delivery(3) 0,1,2, wake 10s
			0-2 masked-input 1 + advertise 2 -> survivors(3) + roster(3) of 2 0,1,2, wake 10s
			0-1 unmask 1 + share 2           ->
			2 unmask 1                       -> work`,
	} {
		t.Run(name, func(t *testing.T) {
			b := aheadBench(t, 3, 1, 0)
			b.script(script)
			b.now = epoch
			b.command("run")
			b.script(`
				open 2          -> announce(2) 0,1,2, wake 10s, round-opened
				0-2 advertise 2 -> roster(3) 0,1,2, wake 10s`)
		})
	}
}

// A lost client sits the next round out and is set up for the following round, by messages of its
// own.
func TestInvitedClientRejoins(t *testing.T) {
	b := aheadBench(t, 5, 2, 0.2)
	b.setUp()
	b.script(`
		0-1 masked-input 1 + advertise 2 ->
		3-4 masked-input 1 + advertise 2 ->
		tick 10s                         -> survivors(4) + roster(4) of 2 0,1,3,4, wake 20s, lost 2 masked-input
		0-1 unmask 1 + share 2           ->
		3-4 unmask 1 + share 2           -> work
		run                              -> result 1 [[1 1 0 1 1]] of 4, 4 answered, round-summed
		open 2                           -> announce(2) + delivery(4) 0,1, invite(3) 2, announce(2) + delivery(4) 3,4, wake 20s, round-opened
		2 masked-input 2 + advertise 3   -> message-ignored
		2 advertise 3 ahead              ->
		0-1 masked-input 2 + advertise 3 ->
		3-4 masked-input 2 + advertise 3 -> survivors(4) + roster(5) of 3 0,1,3,4, roster(5) of 3 2, wake 20s
		2 share 3 ahead                  ->
		0-1 unmask 2 + share 3           ->
		3-4 unmask 2 + share 3           -> work
		run                              -> result 2 [[1 1 0 1 1]] of 4, 4 answered, round-summed
		open 3                           -> announce(3) + delivery(5) 0,1,2,3,4, wake 20s, round-opened`)
}

// An invitation that is not answered, at either stage, is followed by another. No client is invited
// for the round after the last.
func TestInvitedClientStaysAway(t *testing.T) {
	b := benchOf(t, 2, aggregator.Config{Clients: 5, Rounds: 4, SitOut: 0.2})
	b.setUp()
	b.script(`
		0-3 masked-input 1 + advertise 2 ->
		tick 10s                         -> survivors(4) + roster(4) of 2 0,1,2,3, wake 20s, lost 4 masked-input
		0-3 unmask 1 + share 2           -> work
		run                              -> result 1 [[1 1 1 1 0]] of 4, 4 answered, round-summed
		open 2                           -> announce(2) + delivery(4) 0,1,2,3, invite(3) 4, wake 20s, round-opened
		0-3 masked-input 2 + advertise 3 -> survivors(4) + roster(4) of 3 0,1,2,3, wake 20s
		0-3 unmask 2 + share 3           -> work
		run                              -> result 2 [[1 1 1 1 0]] of 4, 4 answered, round-summed
		open 3                           -> announce(3) + delivery(4) 0,1,2,3, invite(4) 4, wake 20s, round-opened
		4 advertise 4 ahead              ->
		0-3 masked-input 3 + advertise 4 -> survivors(4) + roster(5) of 4 0,1,2,3, roster(5) of 4 4, wake 20s
		0-3 unmask 3 + share 4           -> work
		run                              -> result 3 [[1 1 1 1 0]] of 4, 4 answered, round-summed
		open 4                           -> announce(4) + delivery(4) 0,1,2,3, wake 20s, round-opened
		0-3 masked-input 4               -> survivors(4) 0,1,2,3, wake 20s`)
}

// At most ⌊s·N⌋ clients may sit out: 29 of 100 for s = 0.29, although the product of the two is a
// little less in binary. One more brings the setup back. It does not matter at which of the two
// stages they were missed.
func TestWhoMaySitOut(t *testing.T) {
	for _, c := range []struct {
		n, lose   int
		sitOut    float64
		advertise int // how many advertise for round 2,
		share     int // and how many of them deal shares
		begins    string
	}{
		{5, 3, 0.4, 3, 3, "announce(2) + delivery(3) 0,1,2, invite(3) 3,4"},
		{5, 3, 0.4, 4, 3, "announce(2) + delivery(3) 0,1,2, invite(3) 3,4"},
		{5, 3, 0.4, 2, 2, "announce(2) 0,1,2,3,4"},
		{5, 3, 0.4, 5, 2, "announce(2) 0,1,2,3,4"},
		{5, 3, 0.39, 4, 4, "announce(2) + delivery(4) 0,1,2,3, invite(3) 4"},
		{5, 3, 0.39, 3, 3, "announce(2) 0,1,2,3,4"},
		// Fewer than required never begin, however many may sit out.
		{5, 1, 0.6, 4, 4, "announce(2) + delivery(4) 0,1,2,3, invite(3) 4"},
		{5, 1, 0.6, 3, 3, "announce(2) 0,1,2,3,4"},
		{5, 1, 0.6, 5, 3, "announce(2) 0,1,2,3,4"},
	} {
		b := aheadBench(t, c.n, c.lose, c.sitOut)
		b.aheadWith(c.advertise, c.share)
		if got := b.describe(b.command("open 2")); got != c.begins+", wake 10s, round-opened" {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for share, ahead := range map[int]bool{71: true, 70: false} {
		b := aheadBench(t, 100, 50, 0.29)
		b.aheadWith(100, share)
		if got := find[*protocol.Announce](b.command("open 2")).Delivery != nil; got != ahead {
			t.Errorf("%d of 100 are set up, 29 may sit out: begun ahead is %t", share, got)
		}
	}
}

// aheadWith goes through round 1 in which as many clients advertise for the
// next, and deal shares.
func (b *bench) aheadWith(advertise, share int) {
	b.t.Helper()
	b.setUp()
	with := func(stage string, n int, rider string) {
		b.command(fmt.Sprintf("0-%d %s 1 + %s 2", n-1, stage, rider))
		if n < b.n {
			b.command(fmt.Sprintf("%d-%d %s 1", n, b.n-1, stage))
		}
	}
	with("masked-input", advertise, "advertise")
	with("unmask", share, "share")
	b.command("run")
}

// A message that is not accepted takes its rider with it: a masked input that is late voids its
// advertisement.
func TestLateMaskedInputVoidsItsAdvertisement(t *testing.T) {
	b := aheadBench(t, 5, 2, 0.2)
	b.setUp()
	b.script(`
		malformed 0 masked-input 1 + advertise 2 -> message-ignored
		0 advertise 2 ahead                      ->
		0 masked-input 1                         ->
		1-3 masked-input 1 + advertise 2         ->
		tick 10s                                 -> survivors(4) + roster(4) of 2 0,1,2,3, wake 20s, lost 4 masked-input
		4 masked-input 1 + advertise 2           -> message-ignored
		4 advertise 2 ahead                      -> message-ignored
		4 share 2 ahead                          -> message-ignored
		0-2 unmask 1 + share 2                   ->
		tick 20s                                 -> work, lost 3 unmask
		3 unmask 1 + share 2                     -> message-ignored
		3 share 2 ahead                          -> message-ignored
		run                                      -> result 1 [[1 1 1 1 0]] of 4, 3 answered, round-summed
		open 2                                   -> announce(2) 0,1,2,3,4, wake 30s, round-opened`)
}

// fussy is a sum that has nothing of the setup from a client.
type fussy struct {
	*secagg.Ideal
	client protocol.ClientID
}

var errFussy = errors.New("malformed")

func (s fussy) Receive(from protocol.ClientID, m protocol.StageMessage) error {
	if _, stage := m.At(); from == s.client && stage < protocol.StageMaskedInput {
		return errFussy
	}
	return s.Ideal.Receive(from, m)
}

// A message counts even if its rider is bad.
func TestBadRiders(t *testing.T) {
	b := benchOf(t, 2, aggregator.Config{Clients: 5, Rounds: 9, SitOut: 0.4, NewSum: func(s protocol.Setup) (aggregator.Sum, error) {
		if sum := secagg.NewIdeal(s, secagg.DrawClient, entropy.Source{}, new(noise.Tables)); s.Round > 1 {
			return fussy{sum, 4}, nil
		}
		return secagg.NewIdeal(s, secagg.DrawClient, entropy.Source{}, new(noise.Tables)), nil
	}})
	b.setUp()
	b.script(`
		5 masked-input 1 + advertise 2          -> message-ignored
		4294967295 masked-input 1 + advertise 2 -> message-ignored
		0 masked-input 1 + advertise 3          ->
		0 masked-input 1 + advertise 2          -> message-ignored
		1 advertise 2 ahead                     ->
		1 masked-input 1 + advertise 2          -> message-ignored
		2-3 masked-input 1 + advertise 2        ->
		4 masked-input 1 + advertise 2          -> survivors(5) 0, survivors(5) + roster(3) of 2 1,2,3, survivors(5) 4, wake 10s, message-ignored
		5 unmask 1 + share 2                    -> message-ignored
		0 unmask 1 + share 2                    -> message-ignored
		1 unmask 1 + share 1                    ->
		1 share 2 ahead                         ->
		2 share 2 ahead                         ->
		2 unmask 1 + share 2                    -> message-ignored
		3 unmask 1 + share 2                    ->
		4 unmask 1 + share 2                    -> work, message-ignored
		run                                     -> result 1 [[1 1 1 1 1]] of 5, 5 answered, round-summed
		open 2                                  -> invite(3) 0, announce(2) + delivery(3) 1,2,3, invite(3) 4, wake 10s, round-opened`)
}

// Messages of the next round before their time, after it, and twice.
func TestNextRoundOutOfOrder(t *testing.T) {
	b := aheadBench(t, 3, 0, 0)
	b.script(`
		0 advertise 2 ahead              -> message-ignored
		open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
		0 advertise 2 ahead              -> message-ignored
		0-2 advertise 1                  -> roster(3) 0,1,2, wake 10s
		0 advertise 2 ahead              -> message-ignored
		0-2 share 1                      -> delivery(3) 0,1,2, wake 10s
		0 share 2 ahead                  -> message-ignored
		0 masked-input 2                 -> message-ignored
		0 unmask 2                       -> message-ignored
		0 advertise 3 ahead              -> message-ignored
		0-2 masked-input 1 + advertise 2 -> survivors(3) + roster(3) of 2 0,1,2, wake 10s
		0-2 masked-input 1 + advertise 2 -> message-ignored, message-ignored, message-ignored
		0 advertise 2 ahead              -> message-ignored
		0 masked-input 2 + advertise 3   -> message-ignored
		0-2 unmask 1 + share 2           -> work
		0-2 unmask 1 + share 2           -> message-ignored, message-ignored, message-ignored
		0 share 2 ahead                  -> message-ignored
		0 masked-input 2 + advertise 3   -> message-ignored
		run                              -> result 1 [[1 1 1]] of 3, 3 answered, round-summed
		0 share 2 ahead                  -> message-ignored
		0 masked-input 2 + advertise 3   -> message-ignored
		malformed 0 masked-input 2       -> message-ignored
		0 unmask 2                       -> message-ignored
		open 2                           -> announce(2) + delivery(3) 0,1,2, wake 10s, round-opened
		open 2                           -> plan-refused
		0 advertise 2 ahead              -> message-ignored
		0 share 2 ahead                  -> message-ignored
		0-2 masked-input 2 + advertise 3 -> survivors(3) + roster(3) of 3 0,1,2, wake 10s`)
}

// A round that is over before the setup of the next is leaves nothing of it.
func TestAbortVoidsTheSetup(t *testing.T) {
	for name, script := range map[string]string{
		"masked-input": `
			0-2 masked-input 1 + advertise 2 ->
			tick 10s                         -> abort 1: round 1: 3 clients left after the stage masked-input, 4 required, lost 3 masked-input, lost 4 masked-input, round-aborted`,
		"consistency": `
			0-4 masked-input 1 + advertise 2 -> survivors(5) + roster(5) of 2 0,1,2,3,4, wake 10s
			0-2 consistency 1                ->
			tick 10s                         -> abort 1: round 1: 3 clients left after the stage consistency, 4 required, lost 3 consistency, lost 4 consistency, round-aborted`,
		"unmask": `
			0-4 masked-input 1 + advertise 2 -> survivors(5) + roster(5) of 2 0,1,2,3,4, wake 10s
			0-4 consistency 1                -> quorum 0,1,2,3,4, wake 10s
			0-4 share 2 ahead                ->
			0-2 unmask 1                     ->
			tick 10s                         -> abort 1: round 1: 3 clients left after the stage unmask, 4 required, lost 3 unmask, lost 4 unmask, round-aborted`,
	} {
		t.Run(name, func(t *testing.T) {
			b := benchOf(t, 1, aggregator.Config{Clients: 5, Rounds: 9, SitOut: 0.4, NewSum: newConfirming})
			b.setUp()
			b.script(script)
			b.script(`
				3 masked-input 1 + advertise 2 -> message-ignored
				3 advertise 2 ahead            -> message-ignored
				3 share 2 ahead                -> message-ignored
				open 2                         -> announce(2) 0,1,2,3,4, wake 20s, round-opened
				0-4 advertise 2                -> roster(5) 0,1,2,3,4, wake 20s`)
		})
	}
}

// A sum that fails comes after the setup, which stands.
func TestSetupOutlivesAFailedSum(t *testing.T) {
	b := aheadBench(t, 3, 0, 0)
	b.setUp()
	b.script(`
		0-2 masked-input 1 + advertise 2 -> survivors(3) + roster(3) of 2 0,1,2, wake 10s
		0-2 unmask 1 + share 2           -> work
		fail                             -> work-failed
		open 2                           -> announce(2) + delivery(3) 0,1,2, wake 10s, round-opened`)
}

// A sum that the next plan overtakes leaves the setup as it is; its result is not used.
func TestOpenAheadWhileSumming(t *testing.T) {
	b := aheadBench(t, 3, 0, 0)
	b.setUp()
	b.script(`
		0-2 masked-input 1 + advertise 2 -> survivors(3) + roster(3) of 2 0,1,2, wake 10s
		0-2 unmask 1 + share 2           -> work
		open 2                           -> announce(2) + delivery(3) 0,1,2, wake 10s, round-opened
		run                              ->
		0-2 masked-input 2 + advertise 3 -> survivors(3) + roster(3) of 3 0,1,2, wake 10s`)
}

// A plan that comes before the setup for it is complete does without.
func TestOpenBeforeTheSetup(t *testing.T) {
	for _, before := range [][]string{
		{"0-1 masked-input 1 + advertise 2"},
		{"0-2 masked-input 1 + advertise 2"},
		{"0-2 masked-input 1 + advertise 2", "0-1 unmask 1 + share 2"},
	} {
		b := aheadBench(t, 3, 0, 0)
		b.setUp()
		for _, command := range before {
			b.command(command)
		}
		b.script(`
			open 2              -> announce(2) 0,1,2, wake 10s, round-opened
			2 advertise 2 ahead -> message-ignored
			0-2 advertise 2     -> roster(3) 0,1,2, wake 10s`)
	}
}

// The end of the session ends it too.
func TestFinalVoidsTheSetup(t *testing.T) {
	b := aheadBench(t, 3, 0, 0)
	b.setUpAhead()
	b.script(`
		final M -> final 0,1,2
		open 2  -> announce(2) 0,1,2, wake 10s, round-opened`)
}

// A setup serves the plan that it was made for. Another plan that is accepted makes it void; a plan
// that is refused leaves it.
func TestPlanOfAnotherSetup(t *testing.T) {
	const anew = "announce(2) 0,1,2,3,4, wake 10s, round-opened"
	for name, c := range map[string]struct {
		change func(*protocol.Plan)
		want   string
	}{
		"tolerance":        {func(p *protocol.Plan) { p.Cohort.Tolerance = 0.2 }, anew},
		"colluders":        {func(p *protocol.Plan) { p.Cohort.Colluders = 0.2 }, anew},
		"session":          {func(p *protocol.Plan) { p.Session[0]++ }, anew},
		"round skipped":    {func(p *protocol.Plan) { p.Round = 3 }, "announce(3) 0,1,2,3,4, wake 10s, round-opened"},
		"clients":          {func(p *protocol.Plan) { p.Cohort.Clients = 4 }, "plan-refused"},
		"nothing released": {func(p *protocol.Plan) { p.Releases = nil }, "plan-refused"},
		"round again":      {func(p *protocol.Plan) { p.Round = 1 }, "plan-refused"},
	} {
		t.Run(name, func(t *testing.T) {
			b := aheadBench(t, 5, 2, 0.2)
			b.setUpAhead()
			p := newPlan(2, 5, 2)
			c.change(p)
			if got := b.describe(b.receive(theServer, &protocol.Open{Plan: p})); got != c.want {
				t.Fatalf("%s, want %s", got, c.want)
			}
			if c.want == "plan-refused" {
				b.script(`open 2 -> announce(2) + delivery(5) 0,1,2,3,4, wake 10s, round-opened`)
				return
			}
			b.script(fmt.Sprintf(`
				0 masked-input %[1]d  -> message-ignored
				0-4 advertise %[1]d -> roster(5) 0,1,2,3,4, wake 10s`, p.Round))
		})
	}
}

// A round may have a setup ahead that is dropped, and another one. A late message for the first
// must not count as an answer in the second. It would put keys on the roster that no client has, or
// deal shares that no client can open: all holders of such shares would have to give up.
func TestMessagesOfTheOtherSetup(t *testing.T) {
	b := aheadBench(t, 3, 1, 0.34)
	b.setUp()
	b.script(`
		0 masked-input 1 + advertise 2 ->
		1 masked-input 1 + advertise 2 ->
		1 advertise 2                  -> message-ignored
		tick 10s                       -> survivors(2) + roster(2) of 2 0,1, wake 20s, lost 2 masked-input
		0 share 2                      -> message-ignored
		0 unmask 1 + share 2           ->
		1 unmask 1                     -> work
		run                            -> result 1 [[1 1 0]] of 2, 2 answered, round-summed
		open 2                         -> announce(2) 0,1,2, wake 20s, round-opened
		1 advertise 2 ahead            -> message-ignored
		0-2 advertise 2                -> roster(3) 0,1,2, wake 20s
		1 share 2 ahead                -> message-ignored
		0-2 share 2                    -> delivery(3) 0,1,2, wake 20s`)
}
