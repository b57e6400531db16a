package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// signed is a sum whose setup has signatures, which take work to verify; the signatures of one
// client are forged.
type signed struct {
	*secagg.Ideal
	forger protocol.ClientID
	found  *[]protocol.Culprit
}

var errForged = errors.New("forged")

func newSigned(forger protocol.ClientID) func(protocol.Setup) (aggregator.Sum, error) {
	return func(s protocol.Setup) (aggregator.Sum, error) {
		return signed{secagg.NewIdeal(s, secagg.DrawClient, entropy.Source{}, new(noise.Tables)), forger, new([]protocol.Culprit)}, nil
	}
}

func (s signed) Culprits() []protocol.Culprit { return *s.found }

func (s signed) Verify(from protocol.ClientID, m protocol.StageMessage) func(protocol.Runner) func() error {
	if _, stage := m.At(); stage >= protocol.StageMaskedInput {
		return nil
	}
	return func(protocol.Runner) func() error {
		return func() error {
			if from == s.forger {
				*s.found = append(*s.found, protocol.Culprit{Client: from, Err: errForged})
				return errForged
			}
			return s.Ideal.Receive(from, m)
		}
	}
}

// signedBench has n clients; lose of them may be lost, and the forger lies.
func signedBench(t *testing.T, n, lose int, forger protocol.ClientID, rounds uint64) *bench {
	return benchOf(t, lose, aggregator.Config{Clients: n, Rounds: rounds, NewSum: newSigned(forger)})
}

// Signatures are verified as work. The signatures of the first message are verified at once, the
// signatures of the messages that came meanwhile together. The stage closes when the last is done.
func TestVerifiesAsWork(t *testing.T) {
	b := signedBench(t, 4, 1, 99, 0)
	b.script(`
		open 1        -> announce(1) 0,1,2,3, wake 10s, round-opened
		0 advertise 1 -> work
		1 advertise 1 ->
		0 advertise 1 -> message-ignored
		1 advertise 1 -> message-ignored
		run           -> work
		2 advertise 1 ->
		3 advertise 1 ->
		0 share 1     -> message-ignored
		run           -> work
		run           -> roster(4) 0,1,2,3, wake 10s
		0-3 share 1   -> work
		run           -> work
		run           -> delivery(4) 0,1,2,3, wake 10s
		0-3 masked-input 1 -> survivors(4) 0,1,2,3, wake 10s
		0-3 unmask 1  -> work
		run           -> result 1 [[1 1 1 1]] of 4, 4 answered, round-summed`)
}

// A message that came in time counts, however long verifying takes; a later message does not.
func TestStageEndsWhileVerifying(t *testing.T) {
	b := signedBench(t, 4, 2, 99, 0)
	b.script(`
		open 1        -> announce(1) 0,1,2,3, wake 10s, round-opened
		0-2 advertise 1 -> work
		tick 10s      ->
		3 advertise 1 -> message-ignored
		tick 11s      ->
		run           -> work
		3 advertise 1 -> message-ignored
		run           -> roster(3) 0,1,2, wake 21s, lost 3 advertise`)
}

// With reported connections, a client that lost its own after it had answered is not lost, and no
// time is asked for that is past.
func TestStageEndsWhileVerifyingWithPresence(t *testing.T) {
	b := benchOf(t, 2, aggregator.Config{Clients: 4, Presence: true, NewSum: newSigned(99)})
	b.script(`
		connected 0 1    ->
		connected 1 2    ->
		connected 2 3    ->
		open 1           -> announce(1) 0,1,2,3, wake 10s, round-opened
		0-2 advertise 1  -> work
		disconnected 2 3 ->
		run              -> work
		tick 10s         ->
		tick 11s         ->
		run              -> roster(3) 0,1,2, wake 21s, lost 3 advertise`)
}

// A forged signature is refused like any lie, and the stage waits for the liar no more;
// until then nothing else of it is heard.
func TestForgedSignature(t *testing.T) {
	b := signedBench(t, 4, 1, 2, 0)
	b.script(`
		open 1          -> announce(1) 0,1,2,3, wake 10s, round-opened
		0-1 advertise 1 -> work
		2 advertise 1   ->
		2 advertise 1   -> message-ignored
		3 advertise 1   ->
		run             -> work
		run             -> roster(3) 0,1,3, wake 10s, message-ignored, client-excluded`)
}

// A verified message of a round that was left is of no use, nor in the way.
func TestOpenWhileVerifying(t *testing.T) {
	b := signedBench(t, 3, 1, 99, 0)
	b.script(`
		open 1          -> announce(1) 0,1,2, wake 10s, round-opened
		0-1 advertise 1 -> work
		tick 10s        ->
		open 2          -> announce(2) 0,1,2, wake 20s, round-opened
		0-2 advertise 2 ->
		run             -> work
		run             -> roster(3) 0,1,2, wake 20s
		0 share 2       -> work
		final M         -> final 0,1,2
		run             ->`)
}

// Verifying that fails as such loses what it was of, and no more.
func TestVerifyingFails(t *testing.T) {
	b := signedBench(t, 3, 1, 99, 0)
	b.script(`
		open 1        -> announce(1) 0,1,2, wake 10s, round-opened
		0 advertise 1 -> work
		1 advertise 1 ->
		fail          -> work, work-failed
		0 advertise 1 ->
		2 advertise 1 ->
		run           -> work
		run           -> roster(3) 0,1,2, wake 10s`)
}

// A rider waits to be verified, its message does not. A stage is closed together with the stage
// that is set up beside it.
func TestRidersAreVerified(t *testing.T) {
	b := signedBench(t, 3, 0, 99, 9)
	b.script(`
		open 1                           -> announce(1) 0,1,2, wake 10s, round-opened
		0-2 advertise 1                  -> work
		run                              -> work
		run                              -> roster(3) 0,1,2, wake 10s
		0-2 share 1                      -> work
		run                              -> work
		run                              -> delivery(3) 0,1,2, wake 10s
		0-1 masked-input 1 + advertise 2 -> work
		2 masked-input 1 + advertise 2   ->
		run                              -> work
		tick 10s                         ->
		run                              -> survivors(3) + roster(3) of 2 0,1,2, wake 20s
		0-2 unmask 1 + share 2           -> work
		run                              -> work
		run                              -> work
		run                              -> result 1 [[1 1 1]] of 3, 3 answered, round-summed
		open 2                           -> announce(2) + delivery(3) 0,1,2, wake 20s, round-opened`)
}

// A client that has come up anew while its advertisement is verified has forgotten its keys, and
// must not be on the roster.
func TestRegisteredWhileVerifying(t *testing.T) {
	b := benchOf(t, 1, aggregator.Config{Clients: 4, Rounds: 9, SitOut: 0.4, NewSum: newSigned(99)})
	b.script(`
		open 1                           -> announce(1) 0,1,2,3, wake 10s, round-opened
		0-3 advertise 1                  -> work
		run                              -> work
		run                              -> roster(4) 0,1,2,3, wake 10s
		0-3 share 1                      -> work
		run                              -> work
		run                              -> delivery(4) 0,1,2,3, wake 10s
		0-2 masked-input 1 + advertise 2 -> work
		registered 1                     ->
		3 masked-input 1 + advertise 2   ->
		run                              -> work
		run                              -> survivors(4) + roster(3) of 2 0, survivors(4) 1, survivors(4) + roster(3) of 2 2,3, wake 10s, message-ignored`)
}

// A round ends as it does without work, however the work of verifying is spread over the messages.
// The oracle is the role with an ideal sum, which has nothing to verify.
func TestAnyOrderOfVerifying(t *testing.T) {
	sums, aborts := 0, 0
	for seed := range uint64(60) {
		dice := entropy.Public(seed, "any-order-of-verifying")
		n := 3 + dice.IntN(4)
		plain := benchOf(t, 1, aggregator.Config{Clients: n, Rounds: 9, SitOut: 0.5})
		late := signedBench(t, n, 1, 99, 9)
		late.aggregator = aggregator.New(aggregator.Config{Clients: n, Rounds: 9, SitOut: 0.5, StageTimeout: stageTimeout, NewSum: newSigned(99)})
		for round := range uint64(3) {
			round++
			words := []string{fmt.Sprint("advertise ", round), fmt.Sprint("share ", round),
				fmt.Sprintf("masked-input %d + advertise %d", round, round+1), fmt.Sprintf("unmask %d + share %d", round, round+1)}
			if round > 1 {
				words = words[2:]
			}
			want, got := plain.finish(fmt.Sprint("open ", round)), late.finish(fmt.Sprint("open ", round))
			for _, w := range words {
				var lines []string
				before := want
				silent := dice.IntN(4 * n) // now and then a client is
				for range 3 * n {
					if c := dice.IntN(n); c != silent {
						lines = append(lines, fmt.Sprint(c, " ", w))
					}
				}
				for c := range n {
					if c != silent {
						lines = append(lines, fmt.Sprint(c, " ", w))
					}
				}
				for _, line := range lines {
					want += plain.finish(line)
					got += late.sends(line)
					for len(late.works) > 0 && dice.IntN(3) == 0 {
						got += late.sends("run")
					}
				}
				got += late.finish(lines[0]) // which says nothing new
				if want == before {
					end := "tick " + fmt.Sprint(plain.now.Sub(epoch)+stageTimeout)
					want += plain.finish(end)
					got += late.finish(end)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("seed %d, round %d (-at once +as work):\n%s", seed, round, d)
			}
			sums += strings.Count(got, "result ")
			aborts += strings.Count(got, "abort ")
		}
	}
	if sums < 60 || aborts < 5 {
		t.Errorf("%d sums and %d aborts in 180 rounds; the dice do not try much", sums, aborts)
	}
}

// sends returns the messages that the aggregator sends on a command.
func (b *bench) sends(command string) string {
	b.t.Helper()
	if out := b.describe(protocol.Effects{Send: b.command(command).Send}); out != "" {
		return out + "\n"
	}
	return ""
}

// finish is the same, with all the work that follows.
func (b *bench) finish(command string) string {
	b.t.Helper()
	out := b.sends(command)
	for len(b.works) > 0 {
		out += b.sends("run")
	}
	return out
}
