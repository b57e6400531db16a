package sim

import (
	"context"
	"errors"
	"slices"
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

// sameReason compares the reasons of skipped rounds.
var sameReason = cmp.Comparer(func(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
})

// The oracle is the run itself: sums of bits show whose inputs they contain, trainers that they
// were asked, and ledgers that they were charged.
func TestRehearsalIsTheRun(t *testing.T) {
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
			strategy.plan.Session = protocol.SessionID{1}
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
		c, unseen, recharged := config()
		next := uint64(0)
		got, err := Rehearse(context.Background(), c, func(it Round, f Fate, _ []byte) error {
			if next++; it.Number != next {
				t.Fatalf("round %d follows %d", it.Number, next-1)
			}
			for i := range n {
				if f.Trained.Has(i) != seen[i].in[it.Number] {
					t.Errorf("%+v: round %d: client %d trained: %t, in the run %t", faults, it.Number, i, f.Trained.Has(i), seen[i].in[it.Number])
				}
				if f.Charged.Has(i) != charged[i][it.Number] || recharged[i][it.Number] != charged[i][it.Number] {
					t.Errorf("%+v: round %d: client %d charged: %t, in the run %t", faults, it.Number, i, f.Charged.Has(i), charged[i][it.Number])
				}
				if s, ok := sums[it.Number]; ok && f.Summed.Has(i) != (s.Values[0][i] == 1) {
					t.Errorf("%+v: round %d: client %d in the sum: %t, in the run %v", faults, it.Number, i, f.Summed.Has(i), s.Values[0][i])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if next != rounds || slices.ContainsFunc(unseen, func(a asked) bool { return len(a.in) > 0 }) {
			t.Errorf("%+v: %d rounds were gone through, or trainers were asked", faults, next)
		}
		if diff := cmp.Diff(want, got, sameReason); diff != "" {
			t.Errorf("%+v: (-run +rehearsal)\n%s", faults, diff)
		}
		if len(sums) == 0 {
			t.Errorf("%+v: no round came to a sum", faults)
		}
	}
}

// Contributions influence real sums' messages and, without a session, the noise: both are refused.
func TestRehearsalRefuses(t *testing.T) {
	trainers, _ := bits(4)
	ok := Config{Session: protocol.SessionID{1}, Strategy: savedAdder{newAdder(protocol.Cohort{Clients: 4}, exact(4), 1)}, Trainers: trainers, Rounds: 1, Network: network}
	for name, change := range map[string]func(*Config){
		"no session": func(c *Config) { c.Session = protocol.SessionID{} },
		"real sums":  func(c *Config) { c.Real = true },
		"own noise":  func(c *Config) { c.Draw = secagg.DrawClient },
		"gone on":    func(c *Config) { c.From = new(Snapshot) },
	} {
		c := ok
		change(&c)
		if _, err := Rehearse(context.Background(), c, nil); !errors.Is(err, ErrRehearsed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	c := ok
	c.Strategy = newAdder(protocol.Cohort{Clients: 4}, exact(4), 1)
	if _, err := Rehearse(context.Background(), c, nil); err == nil {
		t.Error("a strategy that would absorb is rehearsed")
	}
}
