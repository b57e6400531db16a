package algorithm_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/opened"
	_ "github.com/fedsim/fedsim/lab" // all algorithms that there are
	"github.com/fedsim/fedsim/protocol"
)

// The calibrated noise costs the budget, and a fifth less would cost more, by
// the accountant asked for directly.
func TestOpenCalibrates(t *testing.T) {
	for _, settings := range []string{"", "epsilon=1", "epsilon=3 rounds=40", "accountant=gdp-skellam", "delta=1e-7", "contribution=all-ratings"} {
		e := opened.Experiment(t, settings)
		d2, d1 := e.Schedule.First().Bounds()
		cost := func(variance float64) float64 {
			b := e.Privacy.Budget
			r, err := dp.Problem{
				Events: []dp.Event{dp.Skellam(variance, d2, d1).Times(e.Schedule.Rounds())},
				Delta:  b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError,
			}.Epsilon()
			if err != nil {
				t.Fatal(err)
			}
			return r.Epsilon
		}
		want := algorithm.Epsilon.Value(e.Config)
		if got := cost(e.Schedule.First().Noise.Variance); !(got <= want && got > 0.999*want) {
			t.Errorf("%q: the noise costs %v, want %v", settings, got, want)
		}
		if got := cost(0.8 * e.Schedule.First().Noise.Variance); got <= want {
			t.Errorf("%q: a fifth less variance costs %v, within %v: the noise is not the least", settings, got, want)
		}
	}
}

// gdp-skellam, the default, saves 5 to 9% of the noise of rdp.
func TestGDPSkellamSavesNoise(t *testing.T) {
	rdp, gdp := opened.Experiment(t, "epsilon=5 accountant=rdp"), opened.Experiment(t, "epsilon=5")
	if saved := 1 - math.Sqrt(gdp.Schedule.First().Noise.Variance/rdp.Schedule.First().Noise.Variance); saved < 0.05 || saved > 0.09 {
		t.Errorf("it saves %.3g of the deviation, want 0.05 to 0.09", saved)
	}
}

// TestLocalNoise checks that with local noise each client adds the variance that the sum has with split noise. The
// sum then has √600 times the deviation. The statement says that no party is trusted.
func TestLocalNoise(t *testing.T) {
	split, local := opened.Experiment(t, "epsilon=3"), opened.Experiment(t, "epsilon=3 noise=local")
	s, l := split.Schedule.First().Noise, local.Schedule.First().Noise
	if s.Variance != l.Variance || l.Kind != protocol.LocalNoise {
		t.Errorf("each client adds %v of kind %s, the sum has %v where it is split", l.Variance, l.Kind, s.Variance)
	}
	if ratio := l.Final(local.Cohort, 600, 600) / s.Final(split.Cohort, 600, 600); math.Abs(ratio-600*570./600) > 1e-6 {
		t.Errorf("the sum has %v times the variance, want 570: colluders' 30 shares are extra where it is split", ratio)
	}
	planned, err := local.Planned()
	if err != nil || !(planned.Epsilon <= 3 && planned.Epsilon > 2.999) {
		t.Errorf("a run costs %v, %v; want 3", planned.Epsilon, err)
	}
	if got := local.Statement(planned).String(); !strings.HasSuffix(got, ", noise=skellam, trust=none)") {
		t.Error(got)
	}
	if got := split.Statement(planned).String(); !strings.HasSuffix(got, ", noise=skellam)") {
		t.Error(got)
	}
}

// TestReplaceStatesItsTrueCost checks the cost of replaced noise at delta 1e-5 and tolerance 0.3. A claimed
// 1 is 1.34 in truth when no client drops out, and 1.47 when 30% do before their masked input. A claimed 10 is 13.9 and 15.5
// (Gaussians composed exactly, as gdp-skellam composes).
func TestReplaceStatesItsTrueCost(t *testing.T) {
	for _, tt := range []struct {
		settings     string
		nobody, most float64
	}{
		{"epsilon=1 accountant=gdp-skellam", 1.34, 1.47},
		{"epsilon=10 accountant=gdp-skellam", 13.9, 15.5},
	} {
		e := opened.Experiment(t, "noise=replace colluders=0 "+tt.settings)
		cost := func(a experiment.Attempt) float64 {
			t.Helper()
			r, err := e.Spent(nil, slices.Repeat([]experiment.Attempt{a}, e.Schedule.Rounds()))
			if err != nil {
				t.Fatal(err)
			}
			return r.Epsilon
		}
		claimed, worst := e.Privacy.Claimed, e.Privacy.Budget.Epsilon
		if want := algorithm.Epsilon.Value(e.Config); math.Abs(claimed-want) > 1e-3*want {
			t.Errorf("%s: claimed is %v", tt.settings, claimed)
		}
		nobody := cost(experiment.Attempt{Survivors: 600, Answered: 600, Summed: true, Sent: true})
		most := cost(experiment.Attempt{Survivors: 420, Answered: 420, Summed: true, Sent: true})
		if math.Abs(nobody-tt.nobody) > 0.006*tt.nobody || math.Abs(most-tt.most) > 0.006*tt.most {
			t.Errorf("%s: it cost %v without dropouts and %v with the most, want %v and %v", tt.settings, nobody, most, tt.nobody, tt.most)
		}
		if worst < most {
			t.Errorf("%s: the clients agreed to %v, and it may cost %v", tt.settings, worst, most)
		}
		if got := cost(experiment.Attempt{Sent: true}); got != worst {
			t.Errorf("%s: attempts without a sum cost %v, want the worst, %v", tt.settings, got, worst)
		}
		if got := cost(experiment.Attempt{}); got != 0 {
			t.Errorf("%s: attempts in which nobody sent anything cost %v", tt.settings, got)
		}
	}
}

// Where the noise would be more than samplers draw, in integers, a coarser fixed point makes
// it less; only where even that does not help is an experiment refused.
func TestNoiseMakesTheScaleCoarser(t *testing.T) {
	fine, coarse := opened.Experiment(t, "algorithm=ssp-c epsilon=1"), opened.Experiment(t, "algorithm=ssp-c epsilon=0.08")
	lowered := 0
	for i, step := range coarse.Schedule {
		for k, r := range step.Releases {
			if largest, limit := coarse.Drawn(&r); largest > limit {
				t.Errorf("%s: noise of variance %v, samplers go up to %v", r.Name, largest, limit)
			}
			if added := math.Sqrt(float64(r.MaxNonZero)) / 2 / (r.Scale * r.L2); added > 0.1 {
				t.Errorf("%s: rounding adds %v of the sensitivity", r.Name, added)
			}
			if of := fine.Schedule[i].Releases[k]; r.Scale < of.Scale {
				lowered++
			} else if r.Scale != of.Scale {
				t.Errorf("%s: scale %v, with less noise %v", r.Name, r.Scale, of.Scale)
			}
		}
	}
	if planned, err := coarse.Planned(); err != nil || lowered == 0 || planned.Epsilon > 0.08 || planned.Epsilon < 0.0799 {
		t.Errorf("%d scales are lower, and the run costs %v, %v", lowered, planned, err)
	}
	c, err := config.Resolve(opened.Settings("algorithm=ssp-c epsilon=0.01 data=synthetic:small"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = experiment.Open(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), "samplers go up to") {
		t.Errorf("at epsilon 0.01: %v", err)
	}
}

// mixed are five rounds of three kinds, the second of which releases two vectors.
// Noise is in proportion to squared sensitivities over these shares.
var mixedShares = [][]float64{{0.1}, {0.2, 0.15}, {0.1}}

func mixed() protocol.Schedule {
	release := func(name string, n int, l2 float64, cap int) protocol.Release {
		return protocol.Release{Name: name, Len: n, L2: l2, MaxNonZero: cap, Scale: 200}
	}
	return protocol.Schedule{
		{Rounds: 1, Phase: "prepare", Releases: []protocol.Release{release("counts", 40, 5, 25)}, Model: 10},
		{Rounds: 2, Phase: "statistics", Releases: []protocol.Release{release("gramian", 6, 1, 6), release("moments", 80, 2, 80)}, Model: 30},
		{Rounds: 2, Phase: "bias", Releases: []protocol.Release{release("bias", 40, 3, 40)}, Model: 20},
	}
}

// withSchedule is an experiment of devices with another schedule.
func withSchedule(t *testing.T, settings string, s protocol.Schedule) *experiment.Experiment {
	t.Helper()
	e := opened.Experiment(t, settings)
	e.Schedule = s
	if e.Private() {
		if err := e.CalibrateSplit(mixedShares); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// TestCalibrateShares checks that releases take their given parts of μ², and that all of them together cost ε.
// μ² of a release is D2²/V. Package dp returns ε for the events, which are counted out by
// hand. With a percent less noise the budget does not suffice.
func TestCalibrateShares(t *testing.T) {
	for _, accountant := range []string{"rdp", "gdp-skellam"} {
		e := withSchedule(t, "epsilon=2 accountant="+accountant, mixed())
		var total float64
		var events, less []dp.Event
		for i, step := range e.Schedule {
			for j, r := range step.Releases {
				d2, d1 := r.Bounds()
				mu := d2 * d2 / r.Noise.Variance
				total += float64(step.Rounds) * mu
				if first, _ := e.Schedule[0].Releases[0].Bounds(); i > 0 {
					want := mixedShares[i][j] / mixedShares[0][0] * first * first / e.Schedule[0].Releases[0].Noise.Variance
					if math.Abs(mu-want) > 1e-12*want {
						t.Errorf("%s: μ² of %s is %v, want %v", accountant, r.Name, mu, want)
					}
				}
				for range step.Rounds {
					events = append(events, dp.Skellam(r.Noise.Variance, d2, d1))
					less = append(less, dp.Skellam(0.98*r.Noise.Variance, d2, d1))
				}
			}
		}
		cost := func(events []dp.Event) float64 {
			r, err := dp.Problem{Events: events, Delta: 1e-5, Accountant: dp.Accountant(accountant), SamplerError: dp.SamplerError(600, 292, 1)}.Epsilon()
			if err != nil {
				t.Fatal(err)
			}
			return r.Epsilon
		}
		if got := cost(events); !(got <= 2 && got > 1.999) {
			t.Errorf("%s: the run costs %v, want 2", accountant, got)
		}
		if got := cost(less); got <= 2 {
			t.Errorf("%s: with 2%% less noise it costs %v", accountant, got)
		}
		planned, err := e.Planned()
		if err != nil || math.Abs(planned.Epsilon-cost(events)) > 1e-12 {
			t.Errorf("%s: planned is %v, %v", accountant, planned, err)
		}
		// A Gaussian of this μ has ε = 2 at δ = 1e-5 (Balle and Wang 2018, by an
		// implementation of its own in Python: μ = 0.50155); rdp needs more noise.
		if accountant == "gdp-skellam" && math.Abs(math.Sqrt(total)-0.50155) > 1e-3 {
			t.Errorf("all releases together have μ = %v", math.Sqrt(total))
		}
	}
}

// Each attempt is charged what its own round releases.
func TestScheduleCharges(t *testing.T) {
	e := withSchedule(t, "epsilon=2", mixed())
	for attempts, releases := range [][]int{nil, {1}, {1, 1, 1}, {1, 2, 2}, {1, 2, 2, 1}, {1, 2, 2, 2}} {
		got, err := e.Charges(attempts)
		if err != nil {
			t.Fatal(err)
		}
		var counts []int
		for _, ev := range got {
			counts = append(counts, ev.Count)
		}
		if !reflect.DeepEqual(counts, releases) {
			t.Errorf("%d attempts are charged %v times the releases, want %v", attempts, counts, releases)
		}
	}
	for round := uint64(1); round <= 5; round++ {
		one, err := e.Plan(round).Charges()
		if err != nil {
			t.Fatal(err)
		}
		before, _ := e.Charges(int(round) - 1)
		after, _ := e.Charges(int(round))
		sum, _ := e.Cost(append(before, one...))
		if want, _ := e.Cost(after); math.Abs(sum.Epsilon-want.Epsilon) > 1e-12 {
			t.Errorf("round %d costs %v on top, in all %v", round, sum, want)
		}
	}
}

// TestScheduleOfReplacedNoise checks that every release has its views where noise is replaced, and that a round never
// costs more than planned. It costs as much as planned if no client is lost before the masked input, and as many
// as are tolerated after it.
func TestScheduleOfReplacedNoise(t *testing.T) {
	e := withSchedule(t, "epsilon=2 noise=replace", mixed())
	worst := make([]experiment.Attempt, 5)
	for i := range worst {
		worst[i] = experiment.Attempt{Survivors: 600, Answered: 420, Summed: true, Sent: true}
	}
	got, err := e.Spent(nil, worst)
	if err != nil || math.Abs(got.Epsilon-e.Privacy.Budget.Epsilon) > 1e-9 || e.Privacy.Budget.Epsilon < 2.5 || math.Abs(e.Privacy.Claimed-2) > 1e-3 {
		t.Errorf("the worst costs %v, %v of a budget of %v, claimed %v", got, err, e.Privacy.Budget.Epsilon, e.Privacy.Claimed)
	}
	first, err := e.Spent(nil, []experiment.Attempt{{Sent: true}})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := e.Cost(mustCharges(t, e, 1))
	if first != want {
		t.Errorf("a first attempt that failed costs %v, want %v", first, want)
	}
	if _, err := e.Spent(nil, make([]experiment.Attempt, 6)); err == nil || !strings.Contains(err.Error(), "6 attempts; there are at most 5") {
		t.Errorf("six attempts of five: %v", err)
	}
}

func mustCharges(t *testing.T, e *experiment.Experiment, attempts int) []dp.Event {
	t.Helper()
	events, err := e.Charges(attempts)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// A larger ε must mean less noise without end, also where δ cannot include the error of the samplers, and the statement must say so. For
// many releases of μ-Gaussian noise ε grows with 1/σ², so from ε = 100 to 1e6 the variance must fall more than a hundredfold, and from 1e6
// to 1e9 nearly a thousandfold. The distance is by hand: 4·2^-100 for a client in each coordinate of each round.
func TestNoiseFallsWithEpsilonWithoutEnd(t *testing.T) {
	t.Parallel()
	for _, name := range effort.Of([]string{"ssp-c"}, []string{"ssp-c", "private-item-bias", "lfl-sgdmf"}, []string{"ssp-c", "dp-cmf", "dpals", "private-item-bias", "lfl-sgdmf"}) {
		before, first, million := math.Inf(1), 0., 0.
		for _, epsilon := range []string{"20", "100", "1000", "1000000", "1000000000"} {
			e := opened.Experiment(t, "data=synthetic:small-100 accountant=gdp-skellam algorithm="+name+" epsilon="+epsilon)
			v := e.Schedule.First().Noise.Variance / (e.Schedule.First().Scale * e.Schedule.First().Scale)
			if !(v < before) {
				t.Errorf("%s: at epsilon %s the variance is %v, not below %v", name, epsilon, v, before)
			}
			if epsilon == "100" {
				first = v
			}
			if epsilon == "1000000" {
				million = v
			}
			if epsilon == "1000000" && v > first/100 || epsilon == "1000000000" && v > million/900 {
				t.Errorf("%s: the variance falls from %v and %v to %v only", name, first, million, v)
			}
			draws := 0
			for _, step := range e.Schedule {
				for _, r := range step.Releases {
					draws += 4 * 100 * r.Len * step.Rounds
				}
			}
			planned, err := e.Planned()
			if err != nil {
				t.Fatal(err)
			}
			if want := algorithm.Epsilon.Value(e.Config); planned.Epsilon > want || planned.Epsilon < 0.9*want {
				t.Errorf("%s: the run costs %v, want %v", name, planned.Epsilon, want)
			}
			s := e.Statement(planned)
			if want := float64(draws) / math.Pow(2, 100); s.NoiseDistance > 0 && math.Abs(s.NoiseDistance/want-1) > 1e-12 {
				t.Errorf("%s: noise distance %v, want %v", name, s.NoiseDistance, want)
			}
			if beside := s.NoiseDistance > 0; beside != (epsilon != "20") || beside == (e.Privacy.Budget.SamplerError > 0) {
				t.Errorf("%s at epsilon %s: noise distance %v, sampler error in delta %v", name, epsilon, s.NoiseDistance, e.Privacy.Budget.SamplerError)
			}
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
		}
	}
}
