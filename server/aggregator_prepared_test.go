package server_test

import (
	"testing"
	"time"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/protocol"
)

// waiting is a federation of five connected clients; two may be lost. Rounds wait for clients for a
// minute, and up to round 3 they are set up ahead. Scripts say when clients are prepared.
func waiting(t *testing.T) *bench { return waitingFor(t, 2, aggregator.Config{}) }

// waitingFor is waiting, where others may be lost, with another sum.
func waitingFor(t *testing.T, lose int, cfg aggregator.Config) *bench {
	cfg.Clients, cfg.Presence, cfg.Grace, cfg.Tail, cfg.Gather, cfg.Rounds = 5, true, time.Second, 3*time.Second, time.Minute, 3
	b := benchOf(t, lose, cfg)
	b.waits = true
	for _, c := range []string{"0 1", "1 2", "2 3", "3 4", "4 5"} {
		b.script("connected " + c + " ->")
	}
	return b
}

const toDelivery = `
	open 1          -> announce(1) 0,1,2,3,4, wake 10s, round-opened
	0-4 advertise 1 -> roster(5) 0,1,2,3,4, wake 10s
	0-4 share 1     -> delivery(5) 0,1,2,3,4, wake 10s`

// No client is told to proceed before all are prepared that may be; then all are that are prepared, and only these are
// heard. Nothing else counts as prepared.
func TestPreparedClientsAreToldToProceed(t *testing.T) {
	for name, script := range map[string]string{
		"all": `
			0 prepared 1       -> 
			0 prepared 1       -> message-ignored
			1-3 prepared 1     -> wake 3s
			0 masked-input 1   -> message-ignored
			4 prepared 2       -> message-ignored
			4 prepared 1 anew 1 -> message-ignored
			5 prepared 1       -> message-ignored
			4 prepared 1       -> proceed 0,1,2,3,4, wake 10s
			4 prepared 1       -> message-ignored
			0-4 masked-input 1 + advertise 2 -> survivors(5) + roster(5) of 2 0,1,2,3,4, wake 10s`,
		"as many as are required": `
			0-2 prepared 1     -> wake 3s
			tick 3s            -> proceed 0,1,2, wake 13s, lost 3 prepared, lost 4 prepared
			3 prepared 1       -> message-ignored
			3 masked-input 1   -> message-ignored
			0-2 masked-input 1 -> survivors(3) 0,1,2, wake 13s`,
		"the others are gone": `
			0-2 prepared 1     -> wake 3s
			disconnected 3 4   -> wake 1s
			disconnected 4 5   ->
			tick 1s            -> proceed 0,1,2, wake 11s, lost 3 prepared, lost 4 prepared`,
		"one of them is gone": `
			0-3 prepared 1     -> wake 3s
			disconnected 0 1   -> wake 1s
			4 prepared 1       ->
			0 masked-input 1   -> message-ignored
			tick 1s            -> proceed 1,2,3,4, wake 11s, lost 0 prepared
			connected 0 9      ->
			1-4 masked-input 1 + advertise 2 -> survivors(4) 1,2,3,4, wake 11s`,
		"one of them was gone for a moment": `
			0-3 prepared 1     -> wake 3s
			disconnected 0 1   -> wake 1s
			4 prepared 1       ->
			connected 0 9      -> proceed 0,1,2,3,4, wake 10s`,
		"one of them has started anew": `
			0-3 prepared 1     -> wake 3s
			registered 0       ->
			4 prepared 1       -> proceed 1,2,3,4, wake 10s, lost 0 prepared`,
	} {
		t.Run(name, func(t *testing.T) {
			b := waiting(t)
			b.script(toDelivery)
			b.script(script)
		})
	}
}

// Two clients say before they pay that a third has dealt them bad shares, which is one more than may lie. The third is excluded, and
// the setup given up, also if it was ready. The round is set up anew without it, and no client has paid. The word of one client, or of clients
// of semi-honest mode, has no such effect. Where the round needs all clients it continues as it was set up.
func TestAccusedDealerIsOut(t *testing.T) {
	for name, c := range map[string]struct {
		mode   aggregator.Config
		lose   int
		script string
	}{
		"by two": {aggregator.Config{NewSum: newConfirming}, 2, `
			0 prepared 1 accusing 4 -> client-accused
			1 prepared 1 accusing 4 -> client-accused, client-excluded
			2-3 prepared 1          -> wake 3s
			4 prepared 1            -> held 1 (4 of 3), wake 1s, round-held
			tick 1s                 -> announce(1 anew 1) 0,1,2,3, wake 11s, round-opened
			4 advertise 1 anew 1    -> message-ignored
			0-3 advertise 1 anew 1  -> roster(4) 0,1,2,3, wake 11s
			0-3 share 1 anew 1      -> delivery(4) 0,1,2,3, wake 11s
			0-3 prepared 1 anew 1   -> proceed 0,1,2,3, wake 11s`},
		"by one": {aggregator.Config{NewSum: newConfirming}, 2, `
			0 prepared 1 accusing 4 -> client-accused
			1-3 prepared 1          -> wake 3s
			4 prepared 1            -> proceed 0,1,2,3,4, wake 10s`},
		"in semi-honest mode": {aggregator.Config{}, 2, `
			0-2 prepared 1 accusing 4 -> wake 3s
			3-4 prepared 1            -> proceed 0,1,2,3,4, wake 10s`},
		"where all are needed": {aggregator.Config{NewSum: newConfirming}, 0, `
			0-1 prepared 1 accusing 4 -> client-accused, client-accused, client-excluded
			2-4 prepared 1            -> proceed 0,1,2,3,4, wake 10s`},
	} {
		t.Run(name, func(t *testing.T) {
			b := waitingFor(t, c.lose, c.mode)
			b.script(toDelivery)
			b.script(c.script)
		})
	}
}

// Clients die after they were told of a round that was set up ahead. No client is told to proceed,
// and the same plan is announced again when enough are back. Late messages of the earlier setup do
// not count in the new one.
func TestRoundWhoseClientsDieIsSetUpAnew(t *testing.T) {
	b := waiting(t)
	b.script(toDelivery)
	for _, stage := range []string{"prepared 1", "masked-input 1 + advertise 2", "unmask 1 + share 2"} {
		b.command("0-4 " + stage)
	}
	b.command("run")
	b.script(`
		open 2               -> announce(2) + delivery(5) 0,1,2,3,4, wake 10s, round-opened
		0 prepared 2         ->
		disconnected 2 3     -> wake 1s
		disconnected 3 4     ->
		disconnected 4 5     ->
		1 prepared 2         ->
		tick 1s              -> held 2 (2 of 3), wake 1m0s, lost 2 prepared, lost 3 prepared, lost 4 prepared, round-held
		0 prepared 2         -> message-ignored
		0 masked-input 2     -> message-ignored
		registered 2         -> wake 1m0s
		connected 2 6        -> wake 2s
		registered 3         -> wake 2s
		connected 3 7        -> wake 2s
		registered 4         -> wake 2s
		connected 4 8        -> announce(2 anew 1) 0,1,2,3,4, wake 11s, round-opened
		0 advertise 2 ahead  -> message-ignored
		0 advertise 2        -> message-ignored
		0 prepared 2         -> message-ignored
		0-4 advertise 2 anew 1 -> roster(5) 0,1,2,3,4, wake 11s
		0 share 2            -> message-ignored
		0-4 share 2 anew 1   -> delivery(5) 0,1,2,3,4, wake 11s
		0 prepared 2         -> message-ignored
		0-4 prepared 2 anew 1 -> proceed 0,1,2,3,4, wake 11s
		0-4 masked-input 2 + advertise 3 -> survivors(5) + roster(5) of 3 0,1,2,3,4, wake 11s
		0-4 unmask 2 + share 3 -> wake 4s, work
		run                  -> result 2 [[1 1 1 1 1]] of 5, 5 answered, round-summed
		open 3               -> announce(3) + delivery(5) 0,1,2,3,4, wake 11s, round-opened`)
}

// Clients that die when they are prepared are not counted: no other client is told to proceed, and charged, for a round
// that they are missing from.
func TestRoundWhosePreparedClientsDieIsSetUpAnew(t *testing.T) {
	b := waiting(t)
	b.script(toDelivery)
	b.script(`
		0-3 prepared 1   -> wake 3s
		disconnected 0 1 -> wake 1s
		disconnected 1 2 ->
		registered 2     ->
		4 prepared 1     ->
		tick 1s          -> held 1 (3 of 3), wake 2s, lost 0 prepared, lost 1 prepared, lost 2 prepared, round-held
		connected 0 6    -> wake 2s
		connected 1 7    -> announce(1 anew 1) 0,1,2,3,4, wake 11s, round-opened`)
}

// A round whose clients are there and do not answer is set up anew at each timeout, for as long as the session may wait
// and no longer. The time of setups that were given up counts as waited.
func TestRoundIsSetUpAnewForALimitedTime(t *testing.T) {
	b := waiting(t)
	b.script(toDelivery)
	b.script(`
		0-1 prepared 1  ->
		tick 10s        -> held 1 (5 of 3), wake 11s, lost 2 prepared, lost 3 prepared, lost 4 prepared, round-held
		tick 11s        -> announce(1 anew 1) 0,1,2,3,4, wake 21s, round-opened
		tick 21s        -> held 1 (5 of 3), wake 22s, lost 0 advertise, lost 1 advertise, lost 2 advertise, lost 3 advertise, lost 4 advertise, round-held
		tick 22s        -> announce(1 anew 2) 0,1,2,3,4, wake 32s, round-opened`)
	for b.aggregatorRuns() {
		if b.now.Sub(epoch) > 2*time.Minute {
			t.Fatal("the round is set up anew for ever")
		}
	}
	if got := b.now.Sub(epoch); got < 50*time.Second || got > 70*time.Second {
		t.Errorf("the round was given up after %v, want a minute", got)
	}
	b.script(`open 2 -> announce(2) 0,1,2,3,4, wake ` + b.now.Add(stageTimeout).Sub(epoch).String() + `, round-opened`)
}

// aggregatorRuns goes to the time that the aggregator asked for last, and reports whether its round
// continues.
func (b *bench) aggregatorRuns() bool {
	b.now = b.last.Wake
	return find[*protocol.Abort](b.step(protocol.Tick{})) == nil
}

// A stage is not awaited to its end once too few clients may still answer it, unless clients may be charged already.
func TestHopelessSetupIsGivenUpAtOnce(t *testing.T) {
	b := waiting(t)
	b.script(toDelivery)
	b.script(`
		0-1 prepared 1   ->
		registered 2     ->
		registered 3     ->
		registered 4     -> held 1 (5 of 3), wake 1s, lost 2 prepared, lost 3 prepared, lost 4 prepared, round-held`)
	b = waiting(t)
	b.script(toDelivery)
	b.script(`
		0-4 prepared 1   -> proceed 0,1,2,3,4, wake 10s
		0-1 masked-input 1 ->
		registered 2     ->
		registered 3     ->
		registered 4     ->
		tick 10s         -> abort 1: round 1: 2 clients left after the stage masked-input, 3 required, lost 2 masked-input, lost 3 masked-input, lost 4 masked-input, round-aborted`)
}

// Parties with noise of their own have been charged when they train: their round is given up as before.
func TestRoundOfOwnNoiseIsNotRepeated(t *testing.T) {
	b := waiting(t)
	b.ownNoise = true
	b.script(`
		open 1           -> announce(1) 0,1,2,3,4, wake 10s, round-opened
		0-1 advertise 1  ->
		registered 2     ->
		registered 3     ->
		registered 4     ->
		tick 10s         -> abort 1: round 1: 2 clients left after the stage advertise, 3 required, lost 2 advertise, lost 3 advertise, lost 4 advertise, round-aborted`)
}

// A session that no client may wait for any more gives the round up as it fails.
func TestRoundIsNotRepeatedOnceClientsDecline(t *testing.T) {
	b := waiting(t)
	b.script(toDelivery)
	b.script(`
		alone            ->
		registered 2     ->
		registered 3     ->
		registered 4     -> abort 1: round 1: 0 clients left after the stage prepared, 3 required, lost 0 prepared, lost 1 prepared, lost 2 prepared, lost 3 prepared, lost 4 prepared, round-aborted`)
}
