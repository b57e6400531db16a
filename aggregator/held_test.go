package aggregator_test

import (
	"testing"
	"time"

	"github.com/fedsim/fedsim/aggregator"
)

// A round requires three of five clients, and two are there. No client hears of it until there are enough and the others
// have had the grace of a lost connection; then it begins, and costs nobody anything before.
func TestRoundWaitsForClients(t *testing.T) {
	gathering := func(t *testing.T) *bench {
		b := benchOf(t, 2, aggregator.Config{Clients: 5, Presence: true, Grace: time.Second, Tail: 3 * time.Second, Gather: time.Minute})
		b.script(`
			connected 0 1 ->
			connected 1 2 ->
			open 1        -> held 1 (2 of 3), wake 1m0s, round-held`)
		return b
	}
	for name, script := range map[string]string{
		"enough come": `
			connected 2 3 -> wake 1s
			tick 1s       -> announce(1) 0,1,2,3,4, wake 11s, round-opened`,
		"all come": `
			connected 2 3 -> wake 1s
			connected 3 4 -> wake 1s
			connected 4 5 -> announce(1) 0,1,2,3,4, wake 10s, round-opened`,
		"one leaves again": `
			connected 2 3    -> wake 1s
			disconnected 2 3 -> wake 1m0s
			tick 1s          -> wake 1m0s
			connected 3 4    -> wake 2s
			tick 2s          -> announce(1) 0,1,2,3,4, wake 12s, round-opened`,
		"too few for too long": `
			tick 60s -> abort 1: round 1: 2 clients left after the stage advertise, 3 required, round-aborted
			open 1   -> plan-refused
			open 2   -> abort 2: round 2: 2 clients left after the stage advertise, 3 required, round-aborted`,
		"enough in time, and again too few": `
			tick 20s         ->  wake 1m0s
			connected 2 3    -> wake 21s
			tick 21s         -> announce(1) 0,1,2,3,4, wake 31s, round-opened
			disconnected 2 3 ->
			open 2           -> held 2 (2 of 3), wake 1m0s, round-held`,
		"the others decline the session": `
			tick 5s -> wake 1m0s
			alone   -> abort 1: round 1: 2 clients left after the stage advertise, 3 required, round-aborted
			open 2  -> abort 2: round 2: 2 clients left after the stage advertise, 3 required, round-aborted`,
		"the server goes on": `
			open 2        -> held 2 (2 of 3), wake 1m0s, round-held
			connected 2 3 -> wake 1s
			tick 1s       -> announce(2) 0,1,2,3,4, wake 11s, round-opened`,
		"the session ends": `
			final model   -> final 0,1,2,3,4
			connected 2 3 ->`,
	} {
		t.Run(name, func(t *testing.T) { gathering(t).script(script) })
	}
}

// A round that was set up ahead has lost so many of its clients that it cannot come about: it is set up anew with
// those who came meanwhile, before any client is told of a plan.
func TestSetUpAheadIsLeftIfItsClientsAre(t *testing.T) {
	b := benchOf(t, 2, aggregator.Config{Clients: 5, Presence: true, Grace: time.Second, Tail: 3 * time.Second, Gather: time.Minute, Rounds: 2})
	for _, c := range []string{"0 1", "1 2", "2 3", "3 4", "4 5"} {
		b.script("connected " + c + " ->")
	}
	b.command("open 1")
	for _, stage := range []string{"advertise", "share", "masked-input", "unmask"} {
		b.command("0-4 " + stage + " 1")
	}
	b.command("run")
	for _, c := range []string{"2 3", "3 4", "4 5"} {
		b.command("disconnected " + c)
	}
	b.script(`
		open 2         -> held 2 (2 of 3), wake 1m0s, round-held
		connected 2 13 -> wake 1s
		registered 3   -> wake 1s
		connected 3 14 -> wake 1s
		registered 4   -> wake 1s
		connected 4 15 -> announce(2) 0,1,2,3,4, wake 10s, round-opened`)
}
