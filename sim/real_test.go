package sim

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// noisy is a release to which clients add noise.
func noisy(n int, k protocol.NoiseKind) protocol.Release {
	r := exact(n)
	r.Noise, r.Width = protocol.Noise{Kind: k, Variance: 5000}, 32
	return r
}

// sorts lists the kinds of real sums.
var sorts = []struct {
	name   string
	mode   secagg.Mode
	kind   protocol.NoiseKind
	verify bool
}{
	{"semi-honest", secagg.SemiHonest, protocol.Split, false}, {"active", secagg.Active, protocol.Split, false},
	{"proved", secagg.Active, protocol.Split, true}, {"replaced", secagg.SemiHonest, protocol.TwoRound, false},
}

// A real sum releases the same integers as the ideal sum with noise by clients, and loses the same
// clients at the same stages: every stage, up to the tolerance and beyond it.
func TestRealIsIdeal(t *testing.T) {
	const n = 7
	for _, sort := range sorts {
		for stage := range protocol.Stages {
			// The ideal sum has no stage consistency; see below.
			if course := (protocol.StageFlow{Replaces: sort.kind == protocol.TwoRound}); !course.Has(stage) {
				continue
			}
			for _, lost := range []int{0, 2, 3} {
				if sort.verify && lost != 2 || lost == 0 && stage > 0 {
					continue // proofs take their time, and without losses there is one run
				}
				t.Run(fmt.Sprintf("%s/%s/%d", sort.name, stage, lost), func(t *testing.T) {
					if sort.verify && stage != protocol.StageMaskedInput {
						effort.NotShort(t, "proofs take their time")
					}
					both := make([]*adder, 2)
					outcomes := make([]*Outcome, 2)
					for i := range both {
						trainers, _ := bits(n)
						both[i] = newAdder(protocol.Cohort{Clients: n, Tolerance: 0.3, Colluders: 0.05}, noisy(n, sort.kind), 2)
						cfg := Config{Session: testSession, Strategy: both[i], Trainers: trainers, Rounds: 2, Network: network, Seed: 3, Draw: secagg.DrawClient}
						if i == 1 {
							cfg.Real, cfg.Mode, cfg.VerifyInputs = true, sort.mode, sort.verify
						}
						var err error
						if outcomes[i], err = runWith(t, cfg, script{stage, lost}); err != nil {
							t.Fatal(err)
						}
					}
					if d := cmp.Diff(both[0].sums, both[1].sums); d != "" || len(both[1].sums) == 0 && lost <= 2 {
						t.Errorf("%d sums (-ideal +real):\n%s", len(both[1].sums), d)
					}
					if d := cmp.Diff(both[0].skipped, both[1].skipped); d != "" || len(both[1].skipped) == 0 && lost > 2 {
						t.Errorf("%d skipped (-ideal +real):\n%s", len(both[1].skipped), d)
					}
					for i, it := range outcomes[1].Rounds {
						ideal := outcomes[0].Rounds[i]
						if it.Survivors != ideal.Survivors || it.Answered != ideal.Answered || it.Alive != ideal.Alive || it.Sent != ideal.Sent {
							t.Errorf("the real round was like %+v, the ideal one like %+v", it, ideal)
						}
					}
				})
			}
		}
	}
}

// The real sum equals the ideal sum in a federation so large that clients see parts of the roster.
// Of its rounds the later ones are set up ahead and anew.
func TestCrowdIsIdeal(t *testing.T) {
	effort.LongOnly(t, "keys of 510 clients take seconds")
	const n = secagg.WholeUpTo + 10
	both := make([]*adder, 2)
	for i := range both {
		trainers, _ := bits(n)
		both[i] = newAdder(protocol.Cohort{Clients: n, Tolerance: 0.2, Colluders: 0.02}, noisy(n, protocol.Split), 3)
		_, err := Run(t.Context(), Config{Session: testSession, Strategy: both[i], Trainers: trainers, Rounds: 3, Network: network, Seed: 3, Draw: secagg.DrawClient, Real: i == 1,
			SitOut: 0.1, Workers: 2, Faults: Faults{Dropout: 0.05, Stages: []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(both[0].sums, both[1].sums); d != "" || len(both[1].sums) != 3 {
		t.Errorf("%d sums (-ideal +real):\n%s", len(both[1].sums), d)
	}
}

// If clients take turns, the same clients take part in real and in ideal sums, at most the goal,
// and each contributes in its turns only. Sums contain exactly the survivors' inputs.
func TestTurns(t *testing.T) {
	const n, rounds = 20, 5
	cohort := protocol.Cohort{Clients: 9, Goal: 7, Enrolled: n, Tolerance: 0.3, Colluders: 0.05}
	session := protocol.SessionID{1}
	for _, dropout := range []float64{0, 0.1} {
		both := make([]*adder, 2)
		outcomes := make([]*Outcome, 2)
		for i := range both {
			trainers, _ := bits(n)
			both[i] = newAdder(cohort, exact(n), rounds)
			both[i].plan.Session = session
			cfg := Config{Session: session, Strategy: both[i], Trainers: trainers, Rounds: rounds, Network: network, Seed: 5, Draw: secagg.DrawClient, Real: i == 1}
			if dropout > 0 {
				cfg.Faults = Faults{Dropout: dropout, Stages: []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask}}
			}
			var err error
			if outcomes[i], err = Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(both[0].sums, both[1].sums); d != "" || len(both[1].sums) < 3 {
			t.Errorf("dropout %v: %d sums (-ideal +real):\n%s", dropout, len(both[1].sums), d)
		}
		for i, out := range outcomes {
			for _, it := range out.Rounds {
				if it.Alive+it.Dropped != cohort.Clients || it.Sent > cohort.Goal || it.Survivors > cohort.Goal {
					t.Errorf("of %d that are asked for %d: %+v", cohort.Clients, cohort.Goal, it)
				}
				if dropout == 0 && it.Survivors != cohort.Goal {
					t.Errorf("nobody is lost, and %d of %d survive", it.Survivors, cohort.Goal)
				}
				sum := 0.
				for id, x := range both[i].sums[it.Number].Values[0] {
					asked := (protocol.Setup{Session: session, Round: it.Number, Cohort: cohort}).Chooses(protocol.ClientID(id))
					if sum += x; x != 0 && !asked {
						t.Errorf("client %d is in the sum of round %d, which does not ask it", id, it.Number)
					}
				}
				if it.Skipped == nil && sum != float64(it.Survivors) {
					t.Errorf("the sum is %v of %d survivors", sum, it.Survivors)
				}
			}
		}
	}
}

// In active mode clients may be lost before they confirm the survivors: they
// stay survivors, their noise is not reduced, and too many of them end the
// round there.
func TestLostAtConsistency(t *testing.T) {
	const n = 12
	for _, lost := range []int{0, 1, 2, 3} {
		trainers, _ := bits(n)
		strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.17, Colluders: 0.05}, exact(n), 1)
		cfg := Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 1, Network: network, Real: true, Mode: secagg.Active}
		out, err := runWith(t, cfg, script{protocol.StageConsistency, lost})
		if err != nil {
			t.Fatal(err)
		}
		if lost > 2 {
			var few *protocol.TooFew
			if !errors.As(strategy.skipped[1], &few) || few.Stage != protocol.StageConsistency || few.Left != n-lost {
				t.Errorf("%d lost: skipped because of %v", lost, strategy.skipped[1])
			}
			continue
		}
		if got := strategy.sums[1]; got.Survivors != n || !cmp.Equal(got.Values[0], []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}) {
			t.Errorf("%d lost: the sum is %+v, want everybody's", lost, got)
		}
		if it := out.Rounds[0]; it.Answered != n-lost {
			t.Errorf("%d lost: %d answered", lost, it.Answered)
		}
	}
}

// Real sums do not depend on the number of workers, with dropouts at random at all stages.
func TestRealWorkersDoNotMatter(t *testing.T) {
	for kind, stages := range map[protocol.NoiseKind][]protocol.Stage{protocol.Split: {0, 1, 2, 3, 5}, protocol.TwoRound: {0, 1, 2, 3, 5, 6}} {
		t.Run(kind.String(), func(t *testing.T) { checkWorkers(t, kind, stages) })
	}
}

func checkWorkers(t *testing.T, kind protocol.NoiseKind, stages []protocol.Stage) {
	const n = 12
	var first *Outcome
	var sums map[uint64]protocol.Sums
	for _, workers := range []protocol.Workers{1, 2, 8} {
		trainers, _ := bits(n)
		strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.4}, noisy(n, kind), 3)
		out, err := Run(context.Background(), Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 3, Network: network, Real: true,
			Workers: workers, Seed: 7, Faults: Faults{Dropout: 0.2, Stages: stages}})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first, sums = out, strategy.sums
			continue
		}
		if d := cmp.Diff(first, out); d != "" {
			t.Errorf("%d workers: outcome (-1 worker +this):\n%s", workers, d)
		}
		if d := cmp.Diff(sums, strategy.sums); d != "" {
			t.Errorf("%d workers: sums differ:\n%s", workers, d)
		}
	}
	if len(sums) == 0 {
		t.Fatal("no round was summed")
	}
}

// Messages have the planned sizes, if no client is lost and no noise is split, whose encoding
// depends on the draw. The number of client 0, which a message has at most once, takes 2 bytes
// less.
func TestCost(t *testing.T) {
	const n = 20
	for _, c := range []struct {
		mode    secagg.Mode
		release protocol.Release
	}{{secagg.SemiHonest, exact(n)}, {secagg.Active, exact(n)}, {secagg.SemiHonest, noisy(n, protocol.TwoRound)}} {
		mode := c.mode
		strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.2, Colluders: 0.05}, c.release, 1)
		trainers, _ := bits(n)
		out, err := runWith(t, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 1, Network: network, Real: true, Mode: mode}, nil)
		if err != nil {
			t.Fatal(err)
		}
		params := secagg.Params{Mode: mode, Rounds: 1}
		if mode == secagg.Active {
			params.Identities = make([]ed25519.PublicKey, n)
			for i := range params.Identities {
				params.Identities[i] = make(ed25519.PublicKey, ed25519.PublicKeySize)
			}
		}
		p := strategy.plan
		p.Round = 1
		cost, err := params.Cost(&p)
		if err != nil {
			t.Fatal(err)
		}
		for k := range protocol.Kinds {
			if k == protocol.KindFinal {
				continue // of the session
			}
			if got, most := out.Up[k]+out.Down[k], int64(n*cost.Bytes[k]); got > most || got < most-2*n {
				t.Errorf("%s, noise %s, %s: %d bytes, the plan says %d times %d", mode, c.release.Noise.Kind, k, got, n, cost.Bytes[k])
			}
		}
		if replaces := c.release.Noise.Kind == protocol.TwoRound; (cost.Bytes[protocol.KindReplacement] > 0) != replaces || (cost.Bytes[protocol.KindAnswered] > 0) != replaces {
			t.Errorf("%s, noise %s: %d bytes for the stage replace", mode, c.release.Noise.Kind, cost.Bytes[protocol.KindReplacement]+cost.Bytes[protocol.KindAnswered])
		}
	}
}

// A message that travels with another is counted once, under its own kind. The bytes by kind add up
// to the bytes of the rounds, without the final model. An advertisement that rides along has a
// field's tag and length in place of a frame's header.
func TestRidersAreBookedOnce(t *testing.T) {
	const n, rounds = 6, 3
	trainers, _ := bits(n)
	out, err := runWith(t, Config{Session: testSession, Strategy: newAdder(protocol.Cohort{Clients: n}, exact(n), rounds), Trainers: trainers,
		Rounds: rounds, Network: network, Real: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var up, down int64
	for _, it := range out.Rounds {
		up, down = up+it.Up, down+it.Down
	}
	for k := range protocol.Kinds {
		up -= out.Up[k]
		if k != protocol.KindFinal {
			down -= out.Down[k]
		}
	}
	if up != 0 || down != 0 {
		t.Errorf("the rounds took %d bytes up and %d down that are booked under no kind", up, down)
	}
	// The round and two keys, 2 + 70 bytes, alone; or along, with a flag of 2.
	if got, want := out.Up[protocol.KindAdvertise], int64(n*(5+72)+(rounds-1)*n*(2+72+2)); got != want {
		t.Errorf("%d bytes of advertisements, want %d", got, want)
	}
}

func TestConfigOfSums(t *testing.T) {
	trainers, _ := bits(4)
	good := Config{Session: testSession, Strategy: newAdder(protocol.Cohort{Clients: 4}, exact(4), 1), Trainers: trainers, Rounds: 1, Network: network}
	for name, change := range map[string]func(*Config){
		"active and ideal":                func(c *Config) { c.Mode = secagg.Active },
		"consistency in semi-honest mode": func(c *Config) { c.Faults.Stages = []protocol.Stage{protocol.StageConsistency} },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// No client can drop out at a stage that no round reaches.
func TestLostAtNoStage(t *testing.T) {
	const n = 10
	for kind, sound := range map[protocol.NoiseKind]bool{protocol.Split: false, protocol.TwoRound: true} {
		trainers, _ := bits(n)
		strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.5}, noisy(n, kind), 2)
		out, err := Run(context.Background(), Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 2, Network: network, Seed: 2,
			Faults: Faults{Dropout: 0.2, Stages: []protocol.Stage{protocol.StageReplace}}})
		if (err == nil) != sound {
			t.Errorf("clients drop out at replace and noise is %s: %v", kind, err)
		}
		if sound && (out.Rounds[0].Dropped == 0 || out.Rounds[0].Survivors != n || out.Rounds[0].Answered != n) {
			t.Errorf("lost at replace: %+v, want everybody's input and noise", out.Rounds[0])
		}
	}
}

// In virtual time a round of active mode takes one exchange and one computation more than one
// of semi-honest mode, to confirm the survivors. The aggregator's checks of signatures take no
// time.
func TestClockOfActiveMode(t *testing.T) {
	took := make(map[secagg.Mode]time.Duration)
	fast := network
	fast.Up, fast.Down = 1e15, 1e15 // no byte takes a nanosecond
	for _, mode := range []secagg.Mode{secagg.SemiHonest, secagg.Active} {
		trainers, _ := bits(12)
		strategy := newAdder(protocol.Cohort{Clients: 12, Tolerance: 0.17, Colluders: 0.05}, exact(12), 1)
		out, err := runWith(t, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 1, Network: fast, Real: true, Mode: mode}, nil)
		if err != nil {
			t.Fatal(err)
		}
		took[mode] = out.Rounds[0].Duration
	}
	if more, want := took[secagg.Active]-took[secagg.SemiHonest], 2*fast.Latency+fast.Compute; more != want {
		t.Errorf("it takes %v more, want %v", more, want)
	}
}
