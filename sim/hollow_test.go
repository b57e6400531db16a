package sim

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// savedAdder is an adder that can be resumed.
type savedAdder struct{ *adder }

func (savedAdder) Save() ([]byte, error) { return nil, nil }
func (savedAdder) Restore([]byte) error  { return nil }

// asked records the rounds in which a trainer was asked.
type asked struct {
	client.Trainer

	mu *sync.Mutex
	in map[uint64]bool
}

func (a asked) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	a.mu.Lock()
	a.in[p.Round] = true
	a.mu.Unlock()
	return a.Trainer.Contribute(p, src, run)
}

// tally is a ledger that counts.
type tally map[uint64]bool

func (l tally) Charge(_ [16]byte, round uint64, _ []dp.Event) error {
	l[round] = true
	return nil
}

// onlooker is a trainer that contributes nothing, and calls a function with the round.
type onlooker func(round uint64)

func (o onlooker) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	o(p.Round)
	return nothing(p), nil
}

func (onlooker) Finish([]byte, protocol.Runner) error { return nil }

// note notes that a client did something in a round.
func note[ID comparable](in map[uint64]map[ID]bool, round uint64, c ID) {
	if in[round] == nil {
		in[round] = make(map[ID]bool)
	}
	in[round][c] = true
}

// sameReason compares the reasons of skipped rounds.
var sameReason = cmp.Comparer(func(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
})

// The oracle is the run itself: sums of bits show whose inputs they contain, trainers that they
// were asked, and ledgers that they were charged.
func TestHollowRunIsTheRun(t *testing.T) {
	const n, rounds = 40, 12
	release := exact(n)
	release.Noise = protocol.Noise{Kind: protocol.Split, Variance: 1e-12} // so little that it rounds to none, and is charged
	cohort := protocol.Cohort{Clients: n, Tolerance: 0.3}
	stages := []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StagePrepared, protocol.StageMaskedInput, protocol.StageUnmask}
	for _, faults := range []Faults{{}, {Dropout: 0.25, Stages: stages}, {Leave: 0.2, Away: 0.4, AwayRounds: 2}, {Dropout: 0.1, Stages: stages, Away: 0.2, AwayRounds: 3}} {
		config := func() (Config, []asked, []tally) {
			trainers, _ := bits(n)
			seen, ledgers := make([]asked, n), make([]tally, n)
			strategy := newAdder(cohort, release, rounds)
			c := Config{Session: strategy.plan.Session, Strategy: savedAdder{strategy}, Rounds: rounds, Network: network, Faults: faults,
				SitOut: 0.2, Seed: 3, Workers: 2, Trainers: trainers, Ledgers: make([]client.Ledger, n)}
			for i := range n {
				seen[i], ledgers[i] = asked{trainers[i], new(sync.Mutex), make(map[uint64]bool)}, make(tally)
				c.Trainers[i], c.Ledgers[i] = seen[i], ledgers[i]
			}
			return c, seen, ledgers
		}
		c, seen, charged := config()
		want, err := Run(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		sums := c.Strategy.(savedAdder).sums
		c, _, recharged := config()
		next, summed := uint64(0), make(map[uint64]map[protocol.ClientID]bool)
		var mu sync.Mutex
		trained := make(map[uint64]map[int]bool)
		for i := range n {
			c.Trainers[i] = onlooker(func(round uint64) {
				mu.Lock()
				defer mu.Unlock()
				note(trained, round, i)
			})
		}
		c.Hollow = func(round uint64, of protocol.ClientID) { note(summed, round, of) }
		c.Round = func(it Round, _ []byte) error {
			if next++; it.Number != next {
				t.Fatalf("round %d follows %d", it.Number, next-1)
			}
			for i := range n {
				if trained[it.Number][i] != seen[i].in[it.Number] {
					t.Errorf("%+v: round %d: client %d trained: %t, in the run %t", faults, it.Number, i, trained[it.Number][i], seen[i].in[it.Number])
				}
				if recharged[i][it.Number] != charged[i][it.Number] {
					t.Errorf("%+v: round %d: client %d charged: %t, in the run %t", faults, it.Number, i, recharged[i][it.Number], charged[i][it.Number])
				}
				if s, ok := sums[it.Number]; ok && summed[it.Number][protocol.ClientID(i)] != (s.Values[0][i] == 1) {
					t.Errorf("%+v: round %d: client %d in the sum: %t, in the run %v", faults, it.Number, i, summed[it.Number][protocol.ClientID(i)], s.Values[0][i])
				}
			}
			return nil
		}
		got, err := Run(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if adder := c.Strategy.(savedAdder); next != rounds || len(adder.sums)+len(adder.skipped) > 0 {
			t.Errorf("%+v: %d rounds were gone through, or the strategy has sums", faults, next)
		}
		if diff := cmp.Diff(want, got, sameReason); diff != "" {
			t.Errorf("%+v: (-run +hollow)\n%s", faults, diff)
		}
		if len(sums) == 0 {
			t.Errorf("%+v: no round came to a sum", faults)
		}
	}
}

// Contributions influence real sums' messages and, without a session, the noise: both are refused.
func TestHollowRunIsRefused(t *testing.T) {
	trainers, _ := bits(4)
	adder := newAdder(protocol.Cohort{Clients: 4}, exact(4), 1)
	ok := Config{Session: adder.plan.Session, Strategy: savedAdder{adder}, Trainers: trainers, Rounds: 1, Network: network,
		Hollow: func(uint64, protocol.ClientID) {}}
	if _, err := Run(context.Background(), ok); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"no session": func(c *Config) { c.Session = protocol.SessionID{} },
		"real sums":  func(c *Config) { c.Real = true },
		"own noise":  func(c *Config) { c.Draw = secagg.DrawClient },
		"gone on":    func(c *Config) { c.From = new(Snapshot) },
		"a strategy that absorbs": func(c *Config) {
			c.Strategy = newAdder(protocol.Cohort{Clients: 4}, exact(4), 1)
		},
	} {
		c := ok
		change(&c)
		if _, err := Run(context.Background(), c); err == nil || errors.Is(err, ErrHollow) != (name != "no session" && name != "a strategy that absorbs") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
