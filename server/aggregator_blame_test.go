package server_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// complaint is a masked input with complaints.
func (b *bench) complaint(by protocol.ClientID, round uint64, of ...protocol.ClientID) protocol.Effects {
	b.t.Helper()
	m := &protocol.MaskedInput{Round: round, Vectors: []protocol.Integers{{Index: []uint32{uint32(by)}, Value: []int64{1}}}}
	for _, id := range of {
		m.Complaints = append(m.Complaints, protocol.Complaint{Of: id})
	}
	return b.receive(protocol.ClientParty(by), m)
}

func excluded(eff protocol.Effects) (out []protocol.ClientID) {
	for _, e := range eff.Events {
		if e.Kind == protocol.ClientExcluded {
			out = append(out, e.Party.Client)
		}
	}
	return out
}

// Of clients without colluders at most one is assumed to lie. The complaints of one client about
// another, again and again, exclude neither. Two complaints do: they exclude a client that two
// complain of, also in different rounds, and a client that complains of two.
func TestComplaintsExclude(t *testing.T) {
	type complaints map[protocol.ClientID][]protocol.ClientID // from the client that complains to the clients it complains of
	for name, c := range map[string]struct {
		rounds []complaints
		want   []protocol.ClientID
	}{
		"one of another, again and again": {rounds: []complaints{{1: {3}}, {1: {3}}, {1: {3}}}},
		"each other":                      {rounds: []complaints{{1: {3}, 3: {1}}}},
		"two of one":                      {rounds: []complaints{{1: {3}, 2: {3}}}, want: []protocol.ClientID{3}},
		"two of one, one after the other": {rounds: []complaints{{1: {3}}, {2: {3}}}, want: []protocol.ClientID{3}},
		"one of two":                      {rounds: []complaints{{1: {2, 3}}}, want: []protocol.ClientID{1}},
		"one of two, one after the other": {rounds: []complaints{{1: {2}}, {1: {3}}}, want: []protocol.ClientID{1}},
	} {
		b := benchOf(t, 1, aggregator.Config{Clients: 4})
		var got []protocol.ClientID
		for i, by := range c.rounds {
			n := uint64(i + 1)
			b.receive(theServer, &protocol.Open{Plan: b.plan(n)})
			for _, stage := range []string{"advertise", "share"} {
				for id := range protocol.ClientID(4) {
					b.answer(id, stage, n)
				}
			}
			for id := range protocol.ClientID(4) {
				got = append(got, excluded(b.complaint(id, n, by[id]...))...)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v excluded, want %v", name, got, c.want)
		}
	}
}

// accusing is a sum that finds a client to lie when it is asked to sum up, and refuses
// another's messages of a stage.
type accusing struct {
	*secagg.Ideal
	found    *[]protocol.Culprit
	dealer   protocol.ClientID
	sender   protocol.ClientID
	stage    protocol.Stage
	at, fail uint64
}

var errLie = errors.New("a lie")

func (s accusing) Culprits() []protocol.Culprit { return *s.found }

func (s accusing) Receive(from protocol.ClientID, m protocol.StageMessage) error {
	if i, stage := m.At(); i == s.at && from == s.sender && stage == s.stage {
		*s.found = append(*s.found, protocol.Culprit{Client: from, Err: errLie})
		return errLie
	}
	return s.Ideal.Receive(from, m)
}

func (s accusing) Sum(run protocol.Runner) ([][]int64, error) {
	if s.fail == s.at {
		why := &protocol.Unrecoverable{Round: s.at, Client: s.dealer, Left: 2, Required: 2, Dealt: true}
		*s.found = append(*s.found, protocol.Culprit{Client: s.dealer, Err: why})
		return nil, why
	}
	return s.Ideal.Sum(run)
}

// liars is a bench whose sums are accusing: of dealer in round fail, and of sender
// when it speaks in a stage of round at.
func liars(t *testing.T, lose int, dealer protocol.ClientID, fail uint64, sender protocol.ClientID, at uint64, stage protocol.Stage) *bench {
	return liarsOf(t, lose, aggregator.Config{Rounds: 9}, dealer, fail, sender, at, stage)
}

// liarsOf is liars with more to its configuration.
func liarsOf(t *testing.T, lose int, cfg aggregator.Config, dealer protocol.ClientID, fail uint64, sender protocol.ClientID, at uint64, stage protocol.Stage) *bench {
	cfg.Clients, cfg.NewSum = 4, func(s protocol.Setup) (aggregator.Sum, error) {
		x := accusing{Ideal: secagg.NewIdeal(s, secagg.DrawClient, entropy.Source{}, new(noise.Tables)), found: new([]protocol.Culprit), dealer: dealer, sender: 99, at: s.Round, fail: fail}
		if s.Round == at {
			x.sender, x.stage = sender, stage
		}
		return x, nil
	}
	return benchOf(t, lose, cfg)
}

// A dealer is found out when the sum fails, with the next round set up: that is done
// anew without it, and so are all after it, ahead again. Nothing it says is heard.
func TestDealerIsOut(t *testing.T) {
	b := liars(t, 1, 1, 1, 99, 0, 0)
	b.setUp()
	b.script(`
		0-3 masked-input 1 + advertise 2 -> survivors(4) + roster(4) of 2 0,1,2,3, wake 10s
		0-3 unmask 1 + share 2           -> work
		run                              -> abort 1: round 1: client 1 dealt shares that do not give its secret, client-excluded, round-aborted
		open 2                           -> announce(2) 0,2,3, wake 10s, round-opened
		1 advertise 2                    -> message-ignored
		0 advertise 2                    ->
		2-3 advertise 2                  -> roster(3) 0,2,3, wake 10s
		1 share 2                        -> message-ignored
		0 share 2                        ->
		2-3 share 2                      -> delivery(3) 0,2,3, wake 10s
		0 masked-input 2 + advertise 3   ->
		1 advertise 3 ahead              -> message-ignored
		2-3 masked-input 2 + advertise 3 -> survivors(3) + roster(3) of 3 0,2,3, wake 10s
		0 unmask 2 + share 3             ->
		2-3 unmask 2 + share 3           -> work
		run                              -> result 2 [[1 0 1 1]] of 3, 3 answered, round-summed
		open 3                           -> announce(3) + delivery(3) 0,2,3, wake 10s, round-opened
		final M                          -> final 0,1,2,3`)
}

// A client whose message is refused for a lie is out at once. The stage does not wait for it any
// more, and a round that may lose it continues to its sum.
func TestSenderIsOutAtOnce(t *testing.T) {
	b := liars(t, 1, 99, 0, 3, 1, protocol.StageUnmask)
	b.setUp()
	b.script(`
		0-3 masked-input 1 + advertise 2 -> survivors(4) + roster(4) of 2 0,1,2,3, wake 10s
		0-2 unmask 1 + share 2           ->
		3 unmask 1 + share 2             -> work, message-ignored, client-excluded
		3 unmask 1                       -> message-ignored
		run                              -> result 1 [[1 1 1 1]] of 4, 3 answered, round-summed
		open 2                           -> announce(2) 0,1,2, wake 10s, round-opened`)
}

// A lie in what travels with a message does nothing to that.
func TestRiderIsOut(t *testing.T) {
	b := liars(t, 1, 99, 0, 3, 2, protocol.StageShare)
	b.setUp()
	b.script(`
		0-3 masked-input 1 + advertise 2 -> survivors(4) + roster(4) of 2 0,1,2,3, wake 10s
		3 unmask 1 + share 2             -> message-ignored, client-excluded
		0-2 unmask 1 + share 2           -> work
		run                              -> result 1 [[1 1 1 1]] of 4, 4 answered, round-summed
		open 2                           -> announce(2) 0,1,2, wake 10s, round-opened`)
}

// With too few left no round reaches a masked input: each is given up at once, at no cost.
func TestTooFewWithoutTheLiar(t *testing.T) {
	b := liars(t, 0, 99, 0, 2, 1, protocol.StageShare)
	b.script(`
		open 1            -> announce(1) 0,1,2,3, wake 10s, round-opened
		0-3 advertise 1   -> roster(4) 0,1,2,3, wake 10s
		0-1 share 1       ->
		2 share 1         -> message-ignored, client-excluded
		3 share 1         -> abort 1: round 1: 3 clients left after the stage share, 4 required, round-aborted
		open 2            -> announce(2) 0,1,3, wake 10s, round-opened
		0-1 advertise 2   ->
		3 advertise 2     -> abort 2: round 2: 3 clients left after the stage advertise, 4 required, round-aborted`)
}

// Another session begins with every client. An aggregator that is made anew in the same session may
// be told which clients are out.
func TestExcludedBySession(t *testing.T) {
	b := liars(t, 1, 1, 1, 99, 0, 0)
	b.setUp()
	b.script(`
		0-3 masked-input 1 -> survivors(4) 0,1,2,3, wake 10s
		0-3 unmask 1       -> work
		run                -> abort 1: round 1: client 1 dealt shares that do not give its secret, client-excluded, round-aborted`)
	p := b.plan(1)
	p.Session[0] = 1
	if d := cmp.Diff("announce(1) 0,1,2,3, wake 10s, round-opened", b.describe(b.receive(theServer, &protocol.Open{Plan: p}))); d != "" {
		t.Errorf("in another session (-want +got):\n%s", d)
	}
	again := benchOf(t, 1, aggregator.Config{Clients: 4, Excluded: []protocol.ClientID{1}})
	again.script(`open 2 -> announce(2) 0,2,3, wake 10s, round-opened`)
}
