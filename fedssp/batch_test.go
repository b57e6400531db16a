package fedssp

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// batchPlan is the plan of the first sum of statistics.
func batchPlan(t *testing.T, p *kernel.Params, round uint64) *protocol.Plan {
	t.Helper()
	for _, s := range complete(t, *p, 0) {
		if s.Phase == kernel.Statistics {
			return &protocol.Plan{Round: round, Phase: s.Phase, Cohort: protocol.Cohort{Clients: 100}, Releases: s.Releases, Broadcast: start(*p).Encode()}
		}
	}
	t.Fatal("there are no statistics")
	return nil
}

// One coin decides on all statistics of a round, with probability q and anew for every round. A
// user outside the batch sends the same as a user without ratings. A user inside sends the same as
// without batches, and all users send weight counts. The batch size is binomial: within five
// deviations except in one of a million runs.
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
				case name == kernel.WeightCounts && same:
				case name != kernel.WeightCounts && same:
					sent++
				case name == kernel.WeightCounts || !zero:
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

// With either outcome of the coin, 1,000 users, random and adversarial, stay within every bound
// declared in [TestSensitivity].
func TestBatchSensitivity(t *testing.T) {
	p := full(30, 3)
	p.UserRidge, p.SamplingRate = 1e-4, 0.5
	steps, rng := complete(t, p, 0), rand.New(rand.NewPCG(5, 11))
	most := map[string]float64{}
	for k := range 1000 {
		user, model := NewUser(&p, record(&p, rng, k)), hostile(&p, rng, k/8).Encode()
		for i, s := range steps {
			plan := &protocol.Plan{Round: uint64(i + 1), Phase: s.Phase, Cohort: protocol.Cohort{Clients: 1000}, Releases: s.Releases, Broadcast: model}
			for c, v := range contribute(t, user, plan, k) {
				most[s.Releases[c].Name] = max(most[s.Releases[c].Name], within(t, "in a batch or out", s.Releases[c], v))
			}
		}
	}
	if most[kernel.Moments] < 0.9 || most[kernel.Gramian] < 0.9 {
		t.Errorf("the largest shares of the bounds are %v; the users show little", most)
	}
}

// By hand: of a batch of a quarter every statistic and its noise counts four times, and weight
// counts once.
func TestBatchesStandForAll(t *testing.T) {
	p := plain(2, 1)
	p.SamplingRate = 0.25
	r := stage.Undone(&p, serving.Absorbed{Values: map[string][]float64{kernel.Moments: {1, -2}, kernel.WeightCounts: {3, 4}}, Noise: map[string]float64{kernel.Moments: 0.5, kernel.WeightCounts: 2}, Users: 9})
	if !slices.Equal(r.Values[kernel.Moments], []float64{4, -8}) || r.Noise[kernel.Moments] != 2 || !slices.Equal(r.Values[kernel.WeightCounts], []float64{3, 4}) || r.Noise[kernel.WeightCounts] != 2 {
		t.Errorf("%+v", r)
	}
}

// All that a coin decides about in a round is charged as one release over a Poisson sample: the
// whole is by package dp, of events counted out by hand. There is less noise than without batches,
// and it meets the same ε.
func TestBatchesAreChargedAsSamples(t *testing.T) {
	settings := "algorithm=dpals data=synthetic:small epsilon=5 rounds=2"
	whole, some := opened.Experiment(t, settings), opened.Experiment(t, settings+" statistics.sampling-rate=0.1")
	var events []dp.Event
	for _, step := range some.Schedule {
		least, mu2 := math.Inf(1), 0.
		for _, r := range step.Releases {
			d2, d1 := r.Bounds()
			v := r.Noise.Variance
			if step.Phase != kernel.Statistics || r.Name == kernel.WeightCounts {
				events = append(events, dp.Skellam(v, d2, d1).Times(step.Rounds))
				continue
			}
			least, mu2 = min(least, v), mu2+d2*d2/v
		}
		if mu2 > 0 {
			z := 1 / math.Sqrt(mu2) / (1 + 0.5/least)
			events = append(events, dp.SubsampledGaussian(z, 0.1).Times(step.Rounds))
		}
	}
	b := some.Privacy.Budget
	want, err := dp.Problem{Events: events, Delta: b.Delta, Accountant: dp.GDPSkellam, SamplerError: b.SamplerError}.Epsilon()
	if err != nil {
		t.Fatal(err)
	}
	planned, err := some.Planned()
	if err != nil || math.Abs(planned.Epsilon-want.Epsilon) > 1e-9 || math.Abs(want.Epsilon-5) > 1e-3 {
		t.Errorf("planned is %v, %v; counted out by hand it is %v, for a budget of 5", planned.Epsilon, err, want.Epsilon)
	}
	last := len(some.Schedule) - 1
	if less, full := some.Schedule[last].Releases[0].Noise.Variance, whole.Schedule[last].Releases[0].Noise.Variance; !(less < 0.8*full) {
		t.Errorf("batches of a tenth need variance %v, all users %v", less, full)
	}
	statement := some.Statement(planned)
	if statement.Sampling != dp.PoissonSampling || statement.Accountant != dp.GDPSkellam {
		t.Errorf("the statement is %v", statement)
	}
	if err := statement.Validate(); err != nil {
		t.Error(err)
	}
}

// A plan that charges another sampling rate than the client's own coin has is refused, either way.
func TestSamplesAreChargedAsTheyAre(t *testing.T) {
	p := plain(8, 2)
	p.SamplingRate = 0.5
	whole := p
	whole.SamplingRate = 0
	r := model.Ratings{Items: []int32{0, 3}, Values: []float32{1, 4}}
	for name, c := range map[string]struct {
		params *kernel.Params
		rate   float64
	}{"less than it is": {&p, 0.1}, "all": {&p, 0}, "there are no batches": {&whole, 0.5}} {
		plan := batchPlan(t, c.params, 1)
		for k := range plan.Releases {
			n := protocol.Noise{Kind: protocol.Split, Variance: 1e4}
			if plan.Releases[k].Name != kernel.WeightCounts {
				n.SamplingRate = c.rate
			}
			plan.Releases[k].Noise = n
		}
		if _, err := NewUser(c.params, r).Contribute(plan, simulated.New(1, "sampled"), serial{}); err == nil || !strings.Contains(err.Error(), "charged at a sampling rate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
