package sim

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// relayed runs a federation over several rounds; a third of the clients may be lost. The later rounds are set up ahead.
func relayed(t *testing.T, n int, kind protocol.NoiseKind, r Relays, fates calendar) (*adder, *Outcome) {
	t.Helper()
	const rounds = 3
	strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.34, Colluders: 0.05}, noisy(n, kind), rounds)
	trainers, _ := bits(n)
	out, _, err := runThrough(t, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: rounds, Network: network, Seed: 3, Real: true, Workers: 2}, r, fates)
	if err != nil {
		t.Fatal(err)
	}
	return strategy, out
}

// same compares the results of two runs, except durations and sent messages.
func same(t *testing.T, a, b *adder, x, y *Outcome) {
	t.Helper()
	if d := cmp.Diff(a.sums, b.sums); d != "" {
		t.Errorf("sums (-without relays +with):\n%s", d)
	}
	if d := cmp.Diff(a.skipped, b.skipped); d != "" {
		t.Errorf("skipped (-without relays +with):\n%s", d)
	}
	for i := range x.Rounds {
		if p, q := x.Rounds[i], y.Rounds[i]; p.Survivors != q.Survivors || p.Answered != q.Answered {
			t.Errorf("round %d: %d survivors, %d answered without relays, %d and %d with them", i+1, p.Survivors, p.Answered, q.Survivors, q.Answered)
		}
	}
}

// Sums through relays equal sums without relays, to the bit, with clients lost at every stage, up
// to the tolerance and beyond. Clients send and get the same bytes.
func TestRelaysChangeNoSum(t *testing.T) {
	effort.NotShort(t, "runs with and without relays; TestRelayFails has one")
	const n = 9
	for _, kind := range []protocol.NoiseKind{protocol.Split, protocol.TwoRound} {
		for stage := range protocol.Stages {
			if course := (protocol.StageFlow{Replaces: kind == protocol.TwoRound}); !course.Has(stage) {
				continue
			}
			for k, lost := range effort.Of([]int{3}, []int{3, 4}, []int{0, 2, 3, 4}) {
				fates := diary{1: {stage, lost}, 2: {stage, lost / 2}, 3: {protocol.StageMaskedInput, 1}}
				without, x := relayed(t, n, kind, Relays{}, fates)
				usual := []int{3, n}[(k+int(stage))%2]
				for _, count := range effort.Of([]int{3}, []int{usual}, []int{1, 3, n}) {
					t.Run(fmt.Sprintf("%s/%s/%d/%d", kind, stage, lost, count), func(t *testing.T) {
						with, y := relayed(t, n, kind, Relays{Count: count}, fates)
						same(t, without, with, x, y)
						if x.Up != y.Up || x.Down != y.Down {
							t.Errorf("clients sent %v and got %v without relays, %v and %v with them", x.Up, x.Down, y.Up, y.Down)
						}
						if len(with.sums) == 0 {
							t.Error("no sum came about")
						}
					})
				}
			}
		}
	}
}

// A relay that fails is the loss of its clients at that stage, and of nothing else: they are back in
// the next round. Two are too many.
func TestRelayFails(t *testing.T) {
	effort.NotShort(t, "16 federations")
	for _, kind := range []protocol.NoiseKind{protocol.Split, protocol.TwoRound} {
		for _, stage := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageUnmask} {
			for _, failed := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, stage, failed), func(t *testing.T) {
					r, fates := Relays{Count: 4}, outages{4, failed, stage}
					for k := range failed {
						r.Outages = append(r.Outages, Outage{Relay: k, Round: 2, Stage: stage})
					}
					without, x := relayed(t, 12, kind, Relays{}, fates)
					with, y := relayed(t, 12, kind, r, nil)
					same(t, without, with, x, y)
					if got := len(with.sums); got != 4-failed {
						t.Errorf("%d sums after %d relays failed in one round of 3", got, failed)
					}
					if it := y.Rounds[1]; failed == 1 && it.Answered != 9 {
						t.Errorf("%d answered of 12 after a relay with 3 was lost", it.Answered)
					}
				})
			}
		}
	}
}

// outages is a calendar that loses all clients of the first failed relay in round 2 at a stage.
type outages struct {
	relays, failed int
	stage          protocol.Stage
}

func (o outages) lost(c protocol.ClientID, round uint64) protocol.Stage {
	if round == 2 && int(c)%o.relays < o.failed {
		return o.stage
	}
	return protocol.Stages
}
func (outages) absent(protocol.ClientID, uint64) bool { return false }

// The aggregator receives only the vectors of its relays, and sends only their models.
func TestRelaysTakeVectorsOff(t *testing.T) {
	const n, rounds, count, length = 12, 2, 2, 5000
	run := func(r Relays) *relays {
		strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.25, Colluders: 0.05}, noisy(length, protocol.Split), rounds)
		strategy.plan.Broadcast = make([]byte, 10000)
		trainers, _ := bits(n)
		_, through, err := runThrough(t, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: rounds, Network: network, Real: true}, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return through
	}
	out := run(Relays{Count: count})
	// In each round two sums of 5000 coordinates of 32 bits from each relay. The rest are
	// shares, at most 1 kB up and down of each of 12 clients.
	const vectors = rounds * count * 2 * length * 4
	if got := out.up; got < vectors || got > vectors+rounds*n*3000 {
		t.Errorf("the aggregator got %d bytes of relays, their sums are %d", got, vectors)
	}
	const models = rounds * count * 10000
	if got := out.down; got < models || got > models+rounds*n*3000 {
		t.Errorf("the aggregator sent relays %d bytes, models are %d", got, models)
	}
}

// A federation so large that clients are shown parts of the roster has the same sums through
// relays; one relay fails.
func TestRelaysOfACrowd(t *testing.T) {
	effort.LongOnly(t, "keys of 510 clients take seconds")
	const n = secagg.WholeUpTo + 10
	var first *adder
	for _, r := range []Relays{{}, {Count: 4}, {Count: 17}} {
		strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.3, Colluders: 0.02}, noisy(n, protocol.Split), 3)
		trainers, _ := bits(n)
		_, _, err := runThrough(t, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 3, Network: network, Seed: 3, Real: true,
			SitOut: 0.1, Workers: 2, Faults: Faults{Dropout: 0.05, Stages: []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask}}}, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = strategy
		}
		if d := cmp.Diff(first.sums, strategy.sums); d != "" || len(strategy.sums) != 3 {
			t.Errorf("%d relays, %d sums (-none +these):\n%s", r.Count, len(strategy.sums), d)
		}
	}
}
