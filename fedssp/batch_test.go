package fedssp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// batchPlan is that of the first sum of statistics.
func batchPlan(t *testing.T, p *Params, iteration uint64) *protocol.Plan {
	t.Helper()
	for _, s := range complete(t, *p, 0) {
		if s.Phase == Statistics {
			return &protocol.Plan{Iteration: iteration, Phase: s.Phase, Cohort: protocol.Cohort{Clients: 100}, Releases: s.Releases, Broadcast: start(*p).Encode()}
		}
	}
	t.Fatal("there are no statistics")
	return nil
}

// One coin decides about all statistics of an iteration, of each with the chance q, and of every iteration anew. Who is out sends what one without ratings
// does, and who is in what all do where there are no batches; weight counts are sent by everybody. The number of those in is binomial: within five
// deviations but in one of a million runs.
func TestBatchesAreDrawnByOneCoin(t *testing.T) {
	const users, q = 4000, 0.3
	p := plain(8, 2) // without biases, so that weight counts come with the statistics
	p.SamplingRate = q
	whole := p
	whole.SamplingRate = 0
	r := model.Ratings{Items: []int32{0, 3, 5}, Values: []float32{1, 4, 5}}
	all, err := NewUser(&whole, r).Contribute(batchPlan(t, &p, 1), simulated.New(1, "all"), serial{})
	if err != nil {
		t.Fatal(err)
	}
	count, both := [2]float64{}, 0.
	for u := range users {
		var took [2]bool
		src, user := simulated.New(uint64(u), "batch"), NewUser(&p, r)
		for i := range took {
			plan := batchPlan(t, &p, uint64(i)+1)
			vectors, err := user.Contribute(plan, src, serial{})
			if err != nil {
				t.Fatal(err)
			}
			sent := 0
			for k, v := range vectors {
				name := plan.Releases[k].Name
				zero := len(v.Value) == 0 && v.Index != nil && len(v.Index) == 0
				switch same := slices.Equal(v.Value, all[k].Value) && slices.Equal(v.Index, all[k].Index) && slices.Equal(v.Factor, all[k].Factor); {
				case name == WeightCounts && same:
				case name != WeightCounts && same:
					sent++
				case name == WeightCounts || !zero:
					t.Fatalf("%s: neither what all send nor zeros: %+v", name, v)
				}
			}
			if sent != 0 && sent != len(vectors)-1 {
				t.Fatalf("%d of %d statistics were sent", sent, len(vectors)-1)
			}
			if took[i] = sent > 0; took[i] {
				count[i]++
			}
		}
		if took[0] && took[1] {
			both++
		}
	}
	for i, want := range []float64{q, q, q * q} {
		if got := []float64{count[0], count[1], both}[i]; math.Abs(got-users*want) > 5*math.Sqrt(users*want*(1-want)) {
			t.Errorf("count %d is %v; want about %v", i, got, users*want)
		}
	}
}

// Whatever the coin, 1,000 users, random and adversarial, stay within every declared bound: those of [TestSensitivity].
func TestBatchSensitivity(t *testing.T) {
	p := full(30, 3)
	p.UserRidge, p.SamplingRate = 1e-4, 0.5
	steps, rng := complete(t, p, 0), rand.New(rand.NewPCG(5, 11))
	most := map[string]float64{}
	for k := range 1000 {
		user, model := NewUser(&p, record(&p, rng, k)), hostile(&p, rng, k/8).Encode()
		for i, s := range steps {
			plan := &protocol.Plan{Iteration: uint64(i + 1), Phase: s.Phase, Cohort: protocol.Cohort{Clients: 1000}, Releases: s.Releases, Broadcast: model}
			for c, v := range contribute(t, user, plan, k) {
				most[s.Releases[c].Name] = max(most[s.Releases[c].Name], within(t, "in a batch or out", s.Releases[c], v))
			}
		}
	}
	if most[Moments] < 0.9 || most[Gramian] < 0.9 {
		t.Errorf("the largest shares of the bounds are %v; the users show little", most)
	}
}

// By hand: of a batch of a quarter every statistic and its noise counts four times, and weight counts once.
func TestBatchesStandForAll(t *testing.T) {
	p := plain(2, 1)
	p.SamplingRate = 0.25
	r := p.undone(absorbed{values: map[string][]float64{Moments: {1, -2}, WeightCounts: {3, 4}}, noise: map[string]float64{Moments: 0.5, WeightCounts: 2}, users: 9})
	if !slices.Equal(r.values[Moments], []float64{4, -8}) || r.noise[Moments] != 2 || !slices.Equal(r.values[WeightCounts], []float64{3, 4}) || r.noise[WeightCounts] != 2 {
		t.Errorf("%+v", r)
	}
}

// What is charged is the same with batches and without, to the bit, and what amplification claims is between the closed form of what no coin touches, by normal
// noise (Balle and Wang), and that of all releases.
func TestBatchesAreChargedInFull(t *testing.T) {
	settings := "algorithm=ssp-i data=synthetic:small epsilon=5 rounds=1 encoder.steps=4"
	whole, half := opened.Experiment(t, settings), opened.Experiment(t, settings+" statistics.sampling-rate=0.5")
	if !slices.Equal(whole.Privacy.Run, half.Privacy.Run) || whole.Privacy.Budget != half.Privacy.Budget {
		t.Error("batches changed what is charged")
	}
	var fixed, every float64
	for _, step := range half.Schedule {
		for _, r := range step.Releases {
			d2, _ := r.Bounds()
			mu2 := float64(step.Iterations) * d2 * d2 / r.Noise.Variance
			if every += mu2; step.Phase != Statistics || r.Name == WeightCounts {
				fixed += mu2
			}
		}
	}
	exactly := func(mu2 float64) float64 {
		r, err := dp.Problem{Events: []dp.Event{dp.Gaussian(1 / math.Sqrt(mu2))}, Delta: half.Privacy.Budget.Delta, Accountant: dp.Exact}.Epsilon()
		if err != nil {
			t.Fatal(err)
		}
		return r.Epsilon
	}
	if got, low, high := half.Privacy.Claimed, exactly(fixed), exactly(every); got <= low || got >= high {
		t.Errorf("claimed %v; it must be above %v, of what everybody sends, and below %v, of all", got, low, high)
	}
	if whole.Privacy.Claimed != 0 || !half.Privacy.Batched {
		t.Errorf("without batches %v is claimed", whole.Privacy.Claimed)
	}
}
