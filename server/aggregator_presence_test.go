package server_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/fedsim/fedsim/aggregator"
)

// present is a federation of five; two may be lost. Its driver says who is connected: every client
// that is not in away.
func present(t *testing.T, away ...int) *bench {
	b := benchOf(t, 2, aggregator.Config{Clients: 5, Presence: true, Grace: time.Second, Tail: 3 * time.Second})
	for c := range 5 {
		gone := false
		for _, a := range away {
			gone = gone || a == c
		}
		if !gone {
			b.script("connected " + string(rune('0'+c)) + " " + string(rune('1'+c)) + " ->")
		}
	}
	return b
}

// A vacant place is never awaited: five rounds take no time at all.
func TestVacantPlaceIsNotAwaited(t *testing.T) {
	b := present(t, 4)
	for _, i := range []string{"1", "2", "3", "4", "5"} {
		b.command("open " + i)
		for _, stage := range []string{"advertise", "share", "masked-input", "unmask"} {
			b.command("0-3 " + stage + " " + i)
		}
		b.script("run -> result " + i + " [[1 1 1 1 0]] of 4, 4 answered, round-summed")
	}
	if !b.now.Equal(epoch) {
		t.Errorf("it took %v", b.now.Sub(epoch))
	}
}

// A client that is killed costs its grace once, and nothing in the rounds after.
func TestKilledClientCostsItsGrace(t *testing.T) {
	b := present(t)
	b.script(`
		open 1            -> announce(1) 0,1,2,3,4, wake 10s, round-opened
		0-3 advertise 1   -> wake 3s
		disconnected 4 5  -> wake 1s
		tick 900ms        ->  wake 1s
		tick 1s           -> roster(4) 0,1,2,3, wake 11s, lost 4 advertise
		0-3 share 1       -> delivery(4) 0,1,2,3, wake 11s
		0-3 masked-input 1 -> survivors(4) 0,1,2,3, wake 11s
		0-3 unmask 1      -> wake 4s, work
		run               -> result 1 [[1 1 1 1 0]] of 4, 4 answered, round-summed
		open 2            -> announce(2) 0,1,2,3,4, wake 11s, round-opened
		0-3 advertise 2   -> roster(4) 0,1,2,3, wake 11s, lost 4 advertise`)
}

// A client that comes back within its grace is heard. A client that comes back anew has lost its
// work and is awaited in the next round only.
func TestComesBack(t *testing.T) {
	inFirstRound(t, map[string]string{
		"with what it knew": `
			disconnected 4 5 ->
			0-3 advertise 1  -> wake 1s
			connected 4 9    -> announce(1) 4, wake 3s
			4 advertise 1    -> roster(5) 0,1,2,3,4, wake 10s`,
		"anew": `
			disconnected 4 5 ->
			0-3 advertise 1  -> wake 1s
			registered 4     -> roster(4) 0,1,2,3, wake 10s, lost 4 advertise
			connected 4 9    ->
			0-3 share 1      -> delivery(4) 0,1,2,3, wake 10s`,
		"before the old connection is missed": `
			connected 4 9    -> announce(1) 4
			disconnected 4 5 ->
			0-3 advertise 1  -> wake 3s
			4 advertise 1    -> roster(5) 0,1,2,3,4, wake 10s`,
		"and what opened the stage was said meanwhile": `
			0-4 advertise 1  -> roster(5) 0,1,2,3,4, wake 10s
			0-3 share 1      -> wake 3s
			disconnected 4 5 -> wake 1s
			tick 1s          -> delivery(4) 0,1,2,3, wake 11s, lost 4 share
			connected 4 9    ->
			0-3 masked-input 1 -> survivors(4) 0,1,2,3, wake 11s`,
		"after an old one was said again": `
			connected 4 9    -> announce(1) 4
			connected 4 5    ->
			disconnected 4 9 ->
			0-3 advertise 1  -> wake 1s`,
		"after its own loss was said first": `
			disconnected 4 5 ->
			connected 4 5    ->
			0-3 advertise 1  -> wake 1s`,
		"nobody by that number": `
			connected 5 9    ->
			disconnected 5 9 ->
			connected 4294967295 9 ->
			0-3 advertise 1  -> wake 3s`,
	})
}

// inFirstRound runs scripts by their names, each after a first round was opened.
func inFirstRound(t *testing.T, scripts map[string]string) {
	t.Helper()
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			b := present(t)
			b.script("open 1 -> announce(1) 0,1,2,3,4, wake 10s, round-opened")
			b.script(script)
		})
	}
}

// A connected client that says nothing costs the tail, not the timeout. With too few answers there
// is no tail, and a stage that no client can answer any more is not given up before its timeout.
func TestTail(t *testing.T) {
	b := present(t)
	b.script(`
		open 1            -> announce(1) 0,1,2,3,4, wake 10s, round-opened
		0-1 advertise 1   ->
		tick 2s           -> wake 10s
		2 advertise 1     -> wake 5s
		3 advertise 1     ->
		tick 5s           -> roster(4) 0,1,2,3, wake 15s, lost 4 advertise
		0-1 share 1       ->
		disconnected 2 3  ->
		disconnected 3 4  ->
		tick 7s           -> wake 15s
		tick 15s          -> abort 1: round 1: 2 clients left after the stage share, 3 required, lost 2 share, lost 3 share, round-aborted`)
}

// Too few have answered when the time of a stage is over, but a long message passes the lines of as many as are
// missing. The stage continues until they have it, and then for the time of a stage. With enough answers, or
// with lines on which nothing passes, the time is over.
func TestSlowLinesStretchAStage(t *testing.T) {
	inFirstRound(t, map[string]string{
		"while it passes": `
			transfer 0 1 begins ->
			transfer 1 2 begins ->
			0 advertise 1       ->
			2 advertise 1       ->
			tick 10s            -> wake 20s
			tick 12s            -> wake 20s
			transfer 1 2 15s    ->
			tick 20s            -> wake 25s
			1 advertise 1       -> wake 23s
			tick 23s            -> roster(3) 0,1,2, wake 33s, lost 3 advertise, lost 4 advertise`,
		"and no answer comes": `
			transfer 0 1 begins ->
			0-1 advertise 1     ->
			transfer 2 3 begins ->
			tick 10s            -> wake 20s
			transfer 2 3 12s    ->
			tick 20s            -> wake 22s
			tick 22s            -> abort 1: round 1: 2 clients left after the stage advertise, 3 required, lost 2 advertise, lost 3 advertise, lost 4 advertise, round-aborted`,
		"on too few lines": `
			0 advertise 1       ->
			transfer 2 3 begins ->
			tick 10s            -> abort 1: round 1: 1 clients left after the stage advertise, 3 required, lost 1 advertise, lost 2 advertise, lost 3 advertise, lost 4 advertise, round-aborted`,
		"on a line that is lost": `
			0-1 advertise 1     ->
			transfer 2 3 begins ->
			disconnected 2 3    ->
			tick 10s            -> abort 1: round 1: 2 clients left after the stage advertise, 3 required, lost 2 advertise, lost 3 advertise, lost 4 advertise, round-aborted`,
		"on an old line": `
			0-1 advertise 1     ->
			connected 2 9       -> announce(1) 2
			transfer 2 3 begins ->
			tick 10s            -> abort 1: round 1: 2 clients left after the stage advertise, 3 required, lost 2 advertise, lost 3 advertise, lost 4 advertise, round-aborted`,
	})
}

// A connected client that says nothing costs three rounds their tail, and no round after. It may answer at any time,
// also late: then it is awaited again.
func TestSilentClientIsNotAwaited(t *testing.T) {
	b := present(t)
	at := time.Duration(0)
	round := func(i int, end string) {
		t.Helper()
		b.command("open " + strconv.Itoa(i))
		b.command("0-3 advertise " + strconv.Itoa(i))
		if end != "" {
			at += 3 * time.Second
			b.script("tick " + at.String() + " -> " + end)
		}
		for _, stage := range []string{"share", "masked-input", "unmask"} {
			b.command("0-3 " + stage + " " + strconv.Itoa(i))
		}
		b.script("run -> result " + strconv.Itoa(i) + " [[1 1 1 1 0]] of 4, 4 answered, round-summed")
	}
	round(1, "roster(4) 0,1,2,3, wake 13s, lost 4 advertise")
	round(2, "roster(4) 0,1,2,3, wake 16s, lost 4 advertise")
	round(3, "roster(4) 0,1,2,3, wake 19s, lost 4 advertise, client-silent")
	round(4, "") // and it takes no time
	b.script(`
		open 5          -> announce(5) 0,1,2,3,4, wake 19s, round-opened
		0-3 advertise 5 -> roster(4) 0,1,2,3, wake 19s, lost 4 advertise
		4 advertise 5   -> message-ignored`)
	for _, stage := range []string{"share", "masked-input", "unmask"} {
		b.command("0-3 " + stage + " 5")
	}
	b.script("run -> result 5 [[1 1 1 1 0]] of 4, 4 answered, round-summed")
	round(6, "roster(4) 0,1,2,3, wake 22s, lost 4 advertise")
}

// A silent client is awaited like any other as long as too few have answered, and is in the sum if it answers.
func TestSilentClientIsHeard(t *testing.T) {
	b := present(t, 3)
	for i := 1; i <= 4; i++ {
		b.command("open " + strconv.Itoa(i))
		b.command("0-2 advertise " + strconv.Itoa(i))
		if i < 4 {
			b.command("tick " + (time.Duration(i) * 3 * time.Second).String())
			for _, stage := range []string{"share", "masked-input", "unmask"} {
				b.command("0-2 " + stage + " " + strconv.Itoa(i))
			}
			b.script("run -> result " + strconv.Itoa(i) + " [[1 1 1 0 0]] of 3, 3 answered, round-summed")
		}
	}
	b.script(`
		open 5          -> announce(5) 0,1,2,3,4, wake 19s, round-opened
		0-1 advertise 5 ->
		4 advertise 5   -> wake 12s
		tick 12s        -> roster(3) 0,1,4, wake 22s, lost 2 advertise, lost 3 advertise`)
}

// Rounds are set up ahead of time without a silent client, which is invited to the next round.
func TestSilentClientCostsNoSetup(t *testing.T) {
	b := benchOf(t, 2, aggregator.Config{Clients: 5, Presence: true, Grace: time.Second, Tail: 3 * time.Second, Rounds: 9})
	for c := range 5 {
		b.command("connected " + strconv.Itoa(c) + " " + strconv.Itoa(c+1))
	}
	for i := 1; i <= 3; i++ {
		now, next := strconv.Itoa(i), strconv.Itoa(i+1)
		b.command("open " + now)
		b.command("0-3 advertise " + now)
		b.command("tick " + (time.Duration(i) * 3 * time.Second).String())
		b.command("0-3 share " + now)
		b.command("0-3 masked-input " + now + " + advertise " + next)
		b.command("0-3 unmask " + now + " + share " + next)
		b.command("run")
	}
	b.script("open 4 -> announce(4) + delivery(4) 0,1,2,3, invite(5) 4, wake 19s, round-opened")
}
