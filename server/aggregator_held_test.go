package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/protocol"
)

// A round requires three of five clients, and two are there. No client hears of it until there are
// enough and the others have had the grace of a lost connection. Then it begins, and costs no
// client anything before.
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
			open 2   -> abort 2: round 2: 2 clients left after the stage advertise, 3 required, round-aborted
			open 1   -> abort 1: round 1: 0 clients left after the stage advertise, 3 required, round-aborted`,
		"enough in time, and again too few": `
			tick 20s         ->  wake 1m0s
			connected 2 3    -> wake 21s
			tick 21s         -> announce(1) 0,1,2,3,4, wake 31s, round-opened
			disconnected 2 3 -> wake 22s
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

// Round 2 was set up ahead for three of five clients. Two of them leave and the other two come back, so that the round may
// begin: it is set up anew with all who are there, since the setup would end with too few clients.
func TestSetUpAheadIsLeftIfItsClientsAre(t *testing.T) {
	for name, c := range map[string]struct{ leave, begin string }{
		"two leave":   {"disconnected 0 1\ndisconnected 1 2", "announce(2) 0,1,2,3,4, wake 11s, round-opened"},
		"none leaves": {"tick 1s", "announce(2) + delivery(3) 0,1,2, invite(3) 3,4, wake 11s, round-opened"},
	} {
		t.Run(name, func(t *testing.T) {
			b := benchOf(t, 2, aggregator.Config{Clients: 5, Presence: true, Grace: time.Second, Gather: time.Minute, Rounds: 9, SitOut: 0.4})
			b.script(`
				connected 0 1 ->
				connected 1 2 ->
				connected 2 3 ->
				connected 3 4 ->
				connected 4 5 ->`)
			b.setUp()
			b.script(`
				disconnected 3 4                 ->
				disconnected 4 5                 ->
				0-2 masked-input 1 + advertise 2 -> wake 1s
				tick 1s                          -> survivors(3) + roster(3) of 2 0,1,2, wake 11s, lost 3 masked-input, lost 4 masked-input
				0-2 unmask 1 + share 2           -> work
				run                              -> result 1 [[1 1 1 0 0]] of 3, 3 answered, round-summed
				connected 3 6                    ->
				connected 4 7                    ->`)
			for command := range strings.Lines(c.leave) {
				b.command(command)
			}
			b.script("open 2 -> " + c.begin)
		})
	}
}

// A round that waits was set up ahead. Clients that come back with what they know begin it as it is; it is set up anew if
// too many have forgotten it. No client is told of a plan before.
func TestHeldRoundWasSetUpAhead(t *testing.T) {
	for name, script := range map[string]string{
		"they know": `
			connected 2 13 -> wake 1s
			connected 3 14 -> wake 1s
			connected 4 15 -> announce(2) + delivery(5) 0,1,2,3,4, wake 10s, round-opened`,
		"they have forgotten": `
			connected 2 13 -> wake 1s
			registered 3   -> wake 1s
			connected 3 14 -> wake 1s
			registered 4   -> wake 1s
			connected 4 15 -> announce(2) 0,1,2,3,4, wake 10s, round-opened`,
	} {
		t.Run(name, func(t *testing.T) {
			b := benchOf(t, 2, aggregator.Config{Clients: 5, Presence: true, Grace: time.Second, Tail: 3 * time.Second, Gather: time.Minute, Rounds: 2})
			for _, c := range []string{"0 1", "1 2", "2 3", "3 4", "4 5"} {
				b.command("connected " + c)
			}
			b.setUpAhead()
			for _, c := range []string{"2 3", "3 4", "4 5"} {
				b.command("disconnected " + c)
			}
			b.script("open 2 -> held 2 (2 of 3), wake 1m0s, round-held" + script)
		})
	}
}

// Excluded clients are connected and answer nothing: a round is held although three of five are connected, since only two
// of them count. It begins without the excluded client. A round that no client's return can bring about is not held.
func TestHeldRoundLeavesExcludedClientsOut(t *testing.T) {
	for name, c := range map[string]struct {
		excluded []protocol.ClientID
		script   string
	}{
		"the others come": {[]protocol.ClientID{4}, `
			open 1        -> held 1 (2 of 3), wake 1m0s, round-held
			connected 2 3 -> wake 1s
			connected 3 4 -> announce(1) 0,1,2,3, wake 10s, round-opened`},
		"one comes": {[]protocol.ClientID{4}, `
			open 1        -> held 1 (2 of 3), wake 1m0s, round-held
			connected 2 3 -> wake 1s
			tick 1s       -> announce(1) 0,1,2,3, wake 11s, round-opened`},
		"only the excluded client comes again": {[]protocol.ClientID{4}, `
			open 1           -> held 1 (2 of 3), wake 1m0s, round-held
			disconnected 4 5 -> wake 1m0s
			connected 4 6    -> wake 1m0s
			registered 4     -> wake 1m0s
			tick 60s         -> abort 1: round 1: 2 clients left after the stage advertise, 3 required, round-aborted`},
		"too few are left": {[]protocol.ClientID{2, 3, 4}, `
			open 1        -> announce(1) 0,1, wake 10s, round-opened
			0 advertise 1 -> abort 1: round 1: 1 clients left after the stage advertise, 3 required, lost 1 advertise, round-aborted`},
	} {
		t.Run(name, func(t *testing.T) {
			b := benchOf(t, 2, aggregator.Config{Clients: 5, Presence: true, Grace: time.Second, Gather: time.Minute, Excluded: c.excluded})
			b.script(`
				connected 0 1 ->
				connected 1 2 ->
				connected 4 5 ->`)
			b.script(c.script)
		})
	}
}

// A client that is found to lie in round 1 is connected, and no longer counts: round 2 waits for the client that was lost.
func TestRoundWaitsForAnotherThanTheLiar(t *testing.T) {
	b := liarsOf(t, 1, aggregator.Config{Presence: true, Grace: time.Second, Gather: time.Minute}, 1, 1, 99, 0, 0)
	for _, c := range []string{"0 1", "1 2", "2 3", "3 4"} {
		b.command("connected " + c)
	}
	b.setUp()
	b.script(`
		0-3 masked-input 1 -> survivors(4) 0,1,2,3, wake 10s
		0-3 unmask 1       -> work
		run                -> abort 1: round 1: client 1 dealt shares that do not give its secret, client-excluded, round-aborted
		disconnected 3 4   ->
		open 2             -> held 2 (2 of 3), wake 1m0s, round-held
		connected 3 5      -> announce(2) 0,2,3, wake 10s, round-opened`)
}

// A client that takes no part in a round is not awaited. A round that too few take part in is not set up anew. The
// server continues with the next round. Every client counts again there.
func TestRefusals(t *testing.T) {
	for name, script := range map[string]string{
		"too few are left": `
			open 1              -> announce(1) 0,1,2,3,4, wake 10s, round-opened
			0-1 refusal 1       -> plan-refused, plan-refused
			1 refusal 1         ->
			2 refusal 1         -> abort 1: round 1: 0 clients left after the stage advertise, 3 required, plan-refused, lost 0 advertise, lost 1 advertise, lost 2 advertise, lost 3 advertise, lost 4 advertise, round-aborted
			open 2              -> announce(2) 0,1,2,3,4, wake 10s, round-opened
			0-4 advertise 2     -> roster(5) 0,1,2,3,4, wake 10s`,
		"enough are left": `
			open 1              -> announce(1) 0,1,2,3,4, wake 10s, round-opened
			0-2 advertise 1     -> wake 3s
			3 refusal 1         -> plan-refused
			4 refusal 1         -> roster(3) 0,1,2, wake 10s, plan-refused, lost 3 advertise, lost 4 advertise`,
		"the round is set up anew without them": `
			open 1              -> announce(1) 0,1,2,3,4, wake 10s, round-opened
			0 refusal 1         -> plan-refused
			1-4 advertise 1     -> roster(4) 1,2,3,4, wake 10s, lost 0 advertise
			1-4 share 1         -> delivery(4) 1,2,3,4, wake 10s
			disconnected 1 2    -> wake 1s
			disconnected 2 3    ->
			tick 1s             -> held 1 (2 of 3), wake 1m0s, lost 1 prepared, lost 2 prepared, lost 3 prepared, lost 4 prepared, round-held
			0 refusal 1         ->
			9 refusal 1         -> message-ignored
			1 refusal 1         -> wake 1m0s, plan-refused
			2 refusal 1         -> abort 1: round 1: 2 clients left after the stage advertise, 3 required, plan-refused, round-aborted`,
		"a refusal of a round that has not begun counts once": `
			disconnected 1 2    ->
			disconnected 2 3    ->
			disconnected 3 4    ->
			open 1              -> held 1 (2 of 3), wake 1m0s, round-held
			0 refusal 1         -> wake 1m0s, plan-refused
			0 refusal 1         ->`,
		"they are not awaited": `
			open 1              -> announce(1) 0,1,2,3,4, wake 10s, round-opened
			0 advertise 1       ->
			0 refusal 1         -> message-ignored
			1 refusal 2         -> message-ignored
			9 refusal 1         -> message-ignored`,
	} {
		t.Run(name, func(t *testing.T) { waiting(t).script(script) })
	}
}
