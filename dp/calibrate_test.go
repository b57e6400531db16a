package dp

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/effort"
)

// least fails the test unless noise meets the budget and a slightly smaller noise does not.
func least(t fataler, budget Budget, noise float64, r Result, events func(float64) []Event) {
	t.Helper()
	at := func(noise float64) float64 {
		cost, err := Problem{Events: events(noise), Delta: budget.Delta, Accountant: budget.Accountant, SamplerError: budget.SamplerError}.Epsilon()
		if err != nil {
			t.Fatalf("noise %v: %v", noise, err)
		}
		return cost.Epsilon
	}
	if got := at(noise); !(got <= budget.Epsilon) || got != r.Epsilon {
		t.Fatalf("noise %v costs ε = %v (reported %v), budget %v", noise, got, r.Epsilon, budget.Epsilon)
	}
	if got := at(noise * (1 - 1e-6)); !(got > budget.Epsilon) {
		t.Fatalf("noise %v is not the least: 1e-6 less costs ε = %v, budget %v", noise, got, budget.Epsilon)
	}
}

// The published table of GaussianMu, and a textbook subsampled row turned around: z = 1, q = 0.01,
// 1,000 steps cost 2.1014.
func TestNoiseMultiplierTable(t *testing.T) {
	for _, c := range []struct{ epsilon, sigma float64 }{
		{1, 3.7306}, {2, 1.9938}, {5, 0.89187}, {10, 0.49989}, {20, 0.29004},
	} {
		z, r, err := NoiseMultiplier(Budget{Epsilon: c.epsilon, Delta: 1e-5, Accountant: Best}, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		within(t, "z", z, c.sigma, 2e-5)
		if r.Accountant != Exact {
			t.Errorf("accountant is %s, want exact", r.Accountant)
		}
	}
	z, _, err := NoiseMultiplier(Budget{Epsilon: 2.1014, Delta: 1e-5, Accountant: RDP}, 1000, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "z", z, 1, 0.005)
}

func TestNoiseMultiplierRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := Budget{
			Epsilon:    math.Exp(rapid.Float64Range(-1, 4).Draw(t, "log epsilon")),
			Delta:      math.Exp(rapid.Float64Range(-25, -5).Draw(t, "log delta")),
			Accountant: rapid.SampledFrom([]Accountant{RDP, Exact}).Draw(t, "accountant"),
		}
		steps := rapid.IntRange(1, 10_000).Draw(t, "steps")
		z, r, err := NoiseMultiplier(budget, steps, 1)
		if err != nil {
			t.Fatal(err)
		}
		least(t, budget, z, r, func(z float64) []Event { return []Event{Gaussian(z).Times(steps)} })
	})
}

// A row of the table of the accountant pld, turned around: 1,000 steps at q = 0.01 and δ = 1e-5
// keep 1.8282 with z = 1 or hardly more. The noise is the least, except for the precision of the
// grid. Best finds the same noise.
func TestSampledNoiseMultiplierByDistribution(t *testing.T) {
	effort.NotShort(t, "calibrations take a second")
	budget := Budget{Epsilon: 1.8282, Delta: 1e-5, Accountant: PLD}
	z, r, err := NoiseMultiplier(budget, 1000, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "z", z, 1, 5e-5) // half of the fourth decimal, and the grid
	if !(r.Epsilon <= budget.Epsilon) || r.Accountant != PLD {
		t.Errorf("z = %v keeps %+v, budget %v", z, r, budget.Epsilon)
	}
	if less := epsilon(t, PLD, 1e-5, SubsampledGaussian(z*(1-1e-4), 0.01).Times(1000)); less.Epsilon <= budget.Epsilon {
		t.Errorf("z = %v is not the least: 1e-4 less keeps %v", z, less.Epsilon)
	}
	budget = Budget{Epsilon: 1, Delta: 1e-6, Accountant: PLD}
	if z, _, err = NoiseMultiplier(budget, 200, 0.05); err != nil {
		t.Fatal(err)
	}
	budget.Accountant = Best
	best, r, err := NoiseMultiplier(budget, 200, 0.05)
	if err != nil || best != z || r.Accountant != PLD {
		t.Errorf("best finds z = %v by %s (%v), pld %v", best, r.Accountant, err, z)
	}
}

func TestSubsampledNoiseMultiplierRoundTrip(t *testing.T) {
	effort.NotShort(t, "calibrations take a second")
	for _, q := range []float64{0.001, 0.2} {
		budget := Budget{Epsilon: 1, Delta: 1e-6, Accountant: RDP, SamplerError: SamplerError(1000, 100_000, 500)}
		z, r, err := NoiseMultiplier(budget, 500, q)
		if err != nil {
			t.Fatal(err)
		}
		least(t, budget, z, r, func(z float64) []Event { return []Event{SubsampledGaussian(z, q).Times(500)} })
	}
}

func TestSkellamVarianceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := Budget{
			Epsilon:    math.Exp(rapid.Float64Range(-2, 3.5).Draw(t, "log epsilon")),
			Delta:      math.Exp(rapid.Float64Range(-25, -5).Draw(t, "log delta")),
			Accountant: rapid.SampledFrom([]Accountant{RDP, GDPSkellam}).Draw(t, "accountant"),
		}
		d2 := math.Exp(rapid.Float64Range(0, 9).Draw(t, "log D2"))
		release := Skellam(1, d2, d2*rapid.Float64Range(1, 100).Draw(t, "D1/D2")).Times(rapid.IntRange(1, 500).Draw(t, "steps"))
		v, r, err := SkellamVariance(budget, release)
		if err != nil {
			t.Fatal(err)
		}
		events := func(v float64) []Event {
			release.Variance = v
			return []Event{release}
		}
		if r.Accountant == GDPSkellam && v == MinGaussianVariance {
			return // the least noise lies where the theorem begins
		}
		least(t, budget, v, r, events)
	})
}

// The design states 5 to 9% less noise (standard deviation) for charging Skellam as a Gaussian than
// by Rényi.
func TestGDPSkellamGain(t *testing.T) {
	for _, eps := range []float64{0.5, 1, 5} {
		release := Skellam(1, 100, 1e4).Times(50)
		rdp, _, err := SkellamVariance(Budget{Epsilon: eps, Delta: 1e-5, Accountant: RDP}, release)
		if err != nil {
			t.Fatal(err)
		}
		gdp, _, err := SkellamVariance(Budget{Epsilon: eps, Delta: 1e-5, Accountant: GDPSkellam}, release)
		if err != nil {
			t.Fatal(err)
		}
		if gain := 1 - math.Sqrt(gdp/rdp); gain < 0.05 || gain > 0.09 {
			t.Errorf("ε = %v: %.1f%% less noise, want 5 to 9%%", eps, 100*gain)
		}
	}
}

// Two releases share one noise; their μ² are 3 to 1. The closed form is one Gaussian with the sum
// of the μ².
func TestCalibrateShares(t *testing.T) {
	budget := Budget{Epsilon: 2, Delta: 1e-5, Accountant: Exact}
	noise, _, err := Calibrate(budget, func(noise float64) []Event {
		return []Event{Gaussian(noise / math.Sqrt(0.75)), Gaussian(noise / math.Sqrt(0.25))}
	})
	if err != nil {
		t.Fatal(err)
	}
	within(t, "noise", noise, 1/GaussianMu(2, 1e-5), 1e-7)
}

func TestCalibrationRefuses(t *testing.T) {
	sampled := SubsampledSkellam(1, 100, 1e4, 0.1)
	for _, c := range []struct {
		name    string
		budget  Budget
		release Event
		is      error
		says    string
	}{
		{"epsilon below what rdp can show", Budget{Epsilon: 0.001, Delta: 1e-5, Accountant: RDP}, Skellam(1, 10, 10), ErrUnattainable, "the smallest that can be shown is 0.0035"},
		{"samplers use delta up", Budget{Epsilon: 1, Delta: 1e-5, Accountant: RDP, SamplerError: 1e-5}, Skellam(1, 10, 10), ErrUnattainable, "sampler error 1e-05"},
		{"no accountant", Budget{Epsilon: 1, Delta: 1e-5, Accountant: RDP}, sampled, ErrNoAccountant, "gdp-skellam"},
		{"no variance", Budget{Epsilon: 1, Delta: 1e-5, Accountant: RDP}, Gaussian(1), nil, "has no variance"},
		{"no steps", Budget{Epsilon: 1, Delta: 1e-5, Accountant: RDP}, Skellam(1, 10, 10).Times(0), nil, "count is 0"},
		{"unlimited", Budget{Epsilon: math.Inf(1), Delta: 1e-5, Accountant: RDP}, Skellam(1, 10, 10), nil, "epsilon is +Inf; it must be positive and finite"},
		{"no delta", Budget{Epsilon: math.Inf(1), Delta: 0, Accountant: RDP}, Skellam(1, 10, 10), nil, "delta is 0"},
	} {
		_, _, err := SkellamVariance(c.budget, c.release)
		if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v; want %v saying %q", c.name, err, c.is, c.says)
		}
	}
	if _, _, err := NoiseMultiplier(Budget{Epsilon: 1, Delta: 1e-5, Accountant: RDP}, 10, 1.5); err == nil || !strings.Contains(err.Error(), "sampling rate is 1.5") {
		t.Errorf("rate 1.5: error %v", err)
	}
}

// Several releases share a budget. The factor is the least that meets it, for any proportions of
// their noise, and of a single release it is the variance. Problem composes the events and has
// tests of its own.
func TestCalibrateFactor(t *testing.T) {
	factorOf := func(b Budget, releases ...Event) (float64, Result, error) {
		var variances []float64
		for _, e := range releases {
			variances = append(variances, e.Variance)
		}
		return CalibrateFactor(b, variances, func(factor float64) (events []Event) {
			for _, e := range releases {
				e.Variance *= factor
				events = append(events, e)
			}
			return events
		})
	}
	releases := []Event{Skellam(3, 5, 20).Times(2), Skellam(0.5, 2, 4), Skellam(40, 11, 30).Times(7)}
	for _, a := range []Accountant{RDP, GDPSkellam} {
		budget := Budget{Epsilon: 1.5, Delta: 1e-6, Accountant: a}
		factor, reached, err := factorOf(budget, releases...)
		if err != nil {
			t.Fatal(err)
		}
		cost := func(factor float64) float64 {
			var events []Event
			for _, e := range releases {
				e.Variance *= factor
				events = append(events, e)
			}
			r, failed := Problem{Events: events, Delta: 1e-6, Accountant: a}.Epsilon()
			if failed != nil {
				t.Fatal(failed)
			}
			return r.Epsilon
		}
		if got := cost(factor); got > 1.5 || got != reached.Epsilon || cost(factor*(1-1e-6)) <= 1.5 {
			t.Errorf("%s: a factor of %v costs %v, reached %v; a little less costs %v", a, factor, got, reached, cost(factor*(1-1e-6)))
		}
		one, _, err := factorOf(budget, Skellam(4, 5, 20))
		if err != nil {
			t.Fatal(err)
		}
		v, _, err := SkellamVariance(budget, Skellam(9, 5, 20))
		if err != nil || math.Abs(4*one-v) > 1e-7*v {
			t.Errorf("%s: a variance of 4 times %v, alone %v, %v", a, one, v, err)
		}
	}
}

// TestCalibrationAsksForFewCosts counts compositions. Bisection of 55 units of the logarithm to 1e-8 alone takes 33 costs.
func TestCalibrationAsksForFewCosts(t *testing.T) {
	for _, b := range []Budget{{Epsilon: 1, Delta: 1e-5, Accountant: RDP}, {Epsilon: 20, Delta: 1e-6, Accountant: Exact, SamplerError: 1e-20}} {
		asked := 0
		_, _, err := Calibrate(b, func(z float64) []Event {
			asked++
			return []Event{Gaussian(z).Times(10)}
		})
		if err != nil || asked > 22 {
			t.Errorf("%v: %d costs, %v", b, asked, err)
		}
	}
}

// TestPieceThatBeginsWithAJump asks for an ε that a release has from the least variance of the theorem on, and not below. 49 times
// the float64 next to 16/49 is below 16, so the jump lies just above the beginning of the piece.
func TestPieceThatBeginsWithAJump(t *testing.T) {
	v := 49.
	start := MinGaussianVariance / v
	if start*v >= MinGaussianVariance {
		t.Fatal("the product is not below the least variance")
	}
	release := func(factor float64) []Event { return []Event{Skellam(factor*v, 1e3, 1e6)} }
	cost := func(factor float64) float64 {
		r, err := Problem{Events: release(factor), Delta: 1e-5, Accountant: GDPSkellam}.Epsilon()
		if err != nil {
			t.Fatal(err)
		}
		return r.Epsilon
	}
	below, above := cost(start), cost(start*(1+1e-9))
	factor, _, err := CalibrateFactor(Budget{Epsilon: (below + above) / 2, Delta: 1e-5, Accountant: GDPSkellam}, []float64{v}, release)
	if err != nil || above >= below || math.Abs(factor/start-1) > 1e-8 {
		t.Errorf("factor %v, %v; want %v, where ε falls from %v to %v", factor, err, start, below, above)
	}
}
