package server_test

import (
	"fmt"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// A client that has come up anew knows nothing of a setup: the round does not
// wait for it, and it is invited to the next.
func TestRegistered(t *testing.T) {
	const without = `
		open 2                           -> announce(2) + delivery(%d) 0,1,2,3, invite(3) 4, wake %s, round-opened
		4 masked-input 2 + advertise 3   -> message-ignored
		4 advertise 3 ahead              ->
		0-3 masked-input 2 + advertise 3 -> survivors(4) + roster(5) of 3 0,1,2,3, roster(5) of 3 4, wake %[2]s`
	for name, c := range map[string]struct {
		script  string
		arrived int // whose shares did
		wake    string
	}{
		"before it advertised": {`
			4 masked-input 1                 ->
			registered 4                     ->
			0-3 masked-input 1 + advertise 2 -> survivors(5) + roster(4) of 2 0,1,2,3, survivors(5) 4, wake 10s
			0-3 unmask 1 + share 2           ->
			4 unmask 1                       -> work
			run                              -> result 1 [[1 1 1 1 1]] of 5, 5 answered, round-summed`, 4, "10s"},
		"after it advertised": {`
			4 masked-input 1 + advertise 2   ->
			registered 4                     ->
			4 advertise 2 ahead              -> message-ignored
			0-3 masked-input 1 + advertise 2 -> survivors(5) + roster(5) of 2 0,1,2,3, survivors(5) 4, wake 10s
			4 share 2 ahead                  -> message-ignored
			0-3 unmask 1 + share 2           ->
			tick 10s                         -> work, lost 4 unmask
			run                              -> result 1 [[1 1 1 1 1]] of 5, 4 answered, round-summed`, 4, "20s"},
		"before it dealt shares": {`
			0-4 masked-input 1 + advertise 2 -> survivors(5) + roster(5) of 2 0,1,2,3,4, wake 10s
			registered 4                     ->
			registered 4                     ->
			0-3 unmask 1 + share 2           ->
			4 unmask 1 + share 2             -> work, message-ignored
			run                              -> result 1 [[1 1 1 1 1]] of 5, 5 answered, round-summed`, 4, "10s"},
		"after it dealt shares": {`
			0-4 masked-input 1 + advertise 2 -> survivors(5) + roster(5) of 2 0,1,2,3,4, wake 10s
			4 unmask 1 + share 2             ->
			registered 4                     ->
			registered 4                     ->
			4 share 2 ahead                  -> message-ignored
			0-3 unmask 1 + share 2           -> work
			run                              -> result 1 [[1 1 1 1 1]] of 5, 5 answered, round-summed`, 5, "10s"},
		"before the plan": {`
			0-4 masked-input 1 + advertise 2 -> survivors(5) + roster(5) of 2 0,1,2,3,4, wake 10s
			0-4 unmask 1 + share 2           -> work
			registered 4                     ->
			registered 5                     ->
			registered 4294967295            ->
			run                              -> result 1 [[1 1 1 1 1]] of 5, 5 answered, round-summed
			registered 4                     ->`, 5, "10s"},
	} {
		t.Run(name, func(t *testing.T) {
			b := aheadBench(t, 5, 2, 0.2)
			b.setUp()
			b.script(c.script)
			b.script(fmt.Sprintf(without, c.arrived, c.wake))
		})
	}
}

// A client that has not advertised yet has forgotten nothing.
func TestRegisteredAdvertises(t *testing.T) {
	b := aheadBench(t, 5, 2, 0)
	b.setUp()
	b.script(`
		registered 4                     ->
		0-4 masked-input 1 + advertise 2 -> survivors(5) + roster(5) of 2 0,1,2,3,4, wake 10s`)
}

// Too many of them bring the setup back, and so does a client in the round that is over: a round
// under way waits for it as for any other.
func TestTooManyRegistered(t *testing.T) {
	for _, c := range []struct {
		lose   int
		sitOut float64
		come   []string
		ahead  bool
	}{
		{2, 0.2, []string{"registered 4"}, true},
		{2, 0.2, []string{"registered 4", "registered 0"}, false},
		{2, 0, []string{"registered 4"}, false},
		{1, 0.6, []string{"registered 4"}, true},
		{1, 0.6, []string{"registered 4", "registered 0"}, false}, // 3 of 4 required
	} {
		for at := range 3 {
			b := aheadBench(t, 5, c.lose, c.sitOut)
			b.setUp()
			for i, stage := range []string{"0-4 masked-input 1 + advertise 2", "0-4 unmask 1 + share 2", "run"} {
				b.command(stage)
				if i == at {
					for _, command := range c.come {
						b.script(command + " ->")
					}
				}
			}
			if got := find[*protocol.Announce](b.command("open 2")).Delivery != nil; got != c.ahead {
				t.Errorf("%+v at %d: begun ahead is %t", c, at, got)
			}
		}
	}
	b := aheadBench(t, 3, 1, 0)
	b.setUpAhead()
	b.script(`
		open 2                           -> announce(2) + delivery(3) 0,1,2, wake 10s, round-opened
		registered 2                     ->
		0-1 masked-input 2 + advertise 3 ->
		tick 10s                         -> survivors(2) 0,1, wake 20s, lost 2 masked-input`)
}
