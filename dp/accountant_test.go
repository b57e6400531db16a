package dp

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fataler is the common part of testing.T and rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func epsilon(t fataler, a Accountant, delta float64, events ...Event) Result {
	t.Helper()
	r, err := Problem{Events: events, Delta: delta, Accountant: a}.Epsilon()
	if err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	return r
}

// Published values, to 0.5%.
func TestEpsilonTable(t *testing.T) {
	for _, c := range []struct {
		event      Event
		accountant Accountant
		epsilon    float64
	}{
		{Gaussian(1), RDP, 4.7285},
		{Gaussian(1), Exact, 4.3772},
		{Gaussian(5).Times(10), RDP, 2.8137},
		{Gaussian(5).Times(10), Exact, 2.5944},
		{SubsampledGaussian(1, 0.01).Times(1000), RDP, 2.1014},
		{SubsampledGaussian(1, 0.01).Times(10_000), RDP, 6.7128},
	} {
		r := epsilon(t, c.accountant, 1e-5, c.event)
		within(t, string(c.accountant)+" ε of "+string(c.event.Mechanism), r.Epsilon, c.epsilon, 0.005)
		if r.Accountant != c.accountant {
			t.Errorf("accountant is %s, want %s", r.Accountant, c.accountant)
		}
	}
}

// A mixture uses the integer orders at which both parts have a bound. The test writes out the
// minimum of the conversion over these orders.
func TestMixtureUsesCommonOrders(t *testing.T) {
	const z, v, d2, d1, delta = 2.0, 900.0, 20.0, 60.0, 1e-6
	want := math.Inf(1)
	for _, alpha := range append(seq(2, 63), 128, 256, 512, 1024) {
		d := 3*alpha/(2*z*z) + alpha*d2*d2/(2*v) + math.Min(((2*alpha-1)*d2*d2+6*d1)/(4*v*v), 3*d1/(2*v))
		want = min(want, d+math.Log((alpha-1)/alpha)-(math.Log(delta)+math.Log(alpha))/(alpha-1))
	}
	got := epsilon(t, RDP, delta, Gaussian(z).Times(3), Skellam(v, d2, d1))
	within(t, "ε of the mixture", got.Epsilon, want, 1e-12)
}

func seq(from, to int) (s []float64) {
	for i := from; i <= to; i++ {
		s = append(s, float64(i))
	}
	return s
}

func TestGDPSkellam(t *testing.T) {
	const delta = 1e-5
	inside := Skellam(1e4, 300, 3000)
	mu2 := math.Pow((1+0.5/1e4)*300/100, 2)

	r := epsilon(t, GDPSkellam, delta, inside.Times(4), Gaussian(2))
	within(t, "ε", r.Epsilon, GaussianEpsilon(math.Sqrt(4*mu2+0.25), delta), 1e-12)
	if r.Accountant != GDPSkellam {
		t.Errorf("with noise enough the accountant is %s", r.Accountant)
	}
	if rdp := epsilon(t, RDP, delta, inside.Times(4), Gaussian(2)); r.Epsilon >= rdp.Epsilon {
		t.Errorf("ε = %v gains nothing over rdp's %v", r.Epsilon, rdp.Epsilon)
	}

	// Too little noise: Rényi for everything.
	outside := Skellam(math.Nextafter(MinGaussianVariance, 0), 1, 1)
	got := epsilon(t, GDPSkellam, delta, inside, outside)
	if want := epsilon(t, RDP, delta, inside, outside); got != want {
		t.Errorf("%+v, want Rényi for the whole composition, %+v", got, want)
	}
	sampled := SubsampledSkellam(1e4, 300, 3000, 0.1)
	if _, err := (Problem{Events: []Event{sampled, outside}, Delta: delta, Accountant: GDPSkellam}).Epsilon(); !errors.Is(err, ErrNoAccountant) {
		t.Errorf("beside a subsampled release: error %v, want ErrNoAccountant", err)
	}
	for _, dominated := range []Event{Skellam(MinGaussianVariance, 32, 100), Skellam(1e15, 1, 1), Skellam(1e4, 9000, 1e5)} {
		if !dominated.Dominated() {
			t.Errorf("%+v has noise enough and is not dominated", dominated)
		}
	}

	// Subsampled: the loss distribution of the Gaussian with z = √V/D2/(1+0.2/V).
	r = epsilon(t, GDPSkellam, delta, SubsampledSkellam(1e4, 300, 3000, 0.05).Times(50), inside)
	want := epsilon(t, PLD, delta, SubsampledGaussian(100.0/300/(1+0.5/1e4), 0.05).Times(50), Gaussian(100.0/300/(1+0.5/1e4)))
	within(t, "subsampled ε", r.Epsilon, want.Epsilon, 1e-12)
	if r.Accountant != GDPSkellam {
		t.Errorf("subsampled with noise enough: accountant is %s", r.Accountant)
	}

	// Without any Skellam event the answer is proved, and the result says so.
	if r := epsilon(t, GDPSkellam, delta, Gaussian(2)); r.Accountant != Exact {
		t.Errorf("only Gaussians: accountant is %s, want exact", r.Accountant)
	}
	if r := epsilon(t, GDPSkellam, delta, SubsampledGaussian(2, 0.1)); r.Accountant != PLD {
		t.Errorf("only subsampled Gaussians: accountant is %s, want pld", r.Accountant)
	}
}

func TestBest(t *testing.T) {
	if r, want := epsilon(t, Best, 1e-5, Gaussian(1)), epsilon(t, Exact, 1e-5, Gaussian(1)); r != want {
		t.Errorf("best of a Gaussian is %+v, want %+v", r, want)
	}
	sampled := []Event{SubsampledGaussian(1, 0.01).Times(100), Gaussian(5)}
	if r, want := epsilon(t, Best, 1e-5, sampled...), epsilon(t, PLD, 1e-5, sampled...); r != want {
		t.Errorf("best of sampled and plain Gaussians is %+v, want %+v", r, want)
	}
	skellam := Skellam(1e4, 300, 3000)
	if r, want := epsilon(t, Best, 1e-5, skellam), epsilon(t, GDPSkellam, 1e-5, skellam); r != want {
		t.Errorf("best of a Skellam is %+v, want %+v", r, want)
	}
	few := Skellam(15, 300, 3000)
	if r, want := epsilon(t, Best, 1e-5, few), epsilon(t, RDP, 1e-5, few); r != want {
		t.Errorf("best of a Skellam with too little noise for the theorem is %+v, want %+v", r, want)
	}
}

func TestNoAccountant(t *testing.T) {
	sampled := SubsampledSkellam(1e4, 300, 3000, 0.1)
	for _, c := range []struct {
		accountant Accountant
		event      Event
	}{
		{RDP, sampled}, {Exact, sampled}, {Best, SubsampledSkellam(15, 300, 3000, 0.1)},
		{Exact, SubsampledGaussian(1, 0.1)}, {Exact, Skellam(100, 1, 1)},
		{PLD, Skellam(100, 1, 1)}, {PLD, sampled},
		{RDP, Event{Mechanism: "laplace", NoiseMultiplier: 1, Count: 1}},
	} {
		_, err := Problem{Events: []Event{Gaussian(1), c.event}, Delta: 1e-5, Accountant: c.accountant}.Epsilon()
		if !errors.Is(err, ErrNoAccountant) {
			t.Errorf("%s of %s: error %v, want ErrNoAccountant", c.accountant, c.event.Mechanism, err)
		}
	}
}

func TestNothingCostsNothing(t *testing.T) {
	for _, a := range accountants {
		if r := epsilon(t, a, 1e-5); r != (Result{0, a}) {
			t.Errorf("%s of nothing is %+v", a, r)
		}
	}
}

// The answer satisfies δ(ε) + E·(1+e^ε) <= δ and is the smallest that does, by
// the exact δ of a Gaussian.
func TestSamplerErrorIsCharged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const delta = 1e-5
		z := rapid.Float64Range(0.5, 20).Draw(t, "z")
		e := math.Exp(rapid.Float64Range(-60, -12).Draw(t, "log E"))
		r, err := Problem{Events: []Event{Gaussian(z)}, Delta: delta, Accountant: Exact, SamplerError: e}.Epsilon()
		if err != nil {
			t.Fatal(err)
		}
		holds := func(eps float64) bool { return GaussianDelta(eps, 1/z)+e*(1+math.Exp(eps)) <= delta }
		if math.IsInf(r.Epsilon, 1) {
			for eps := 0.0; eps < 30; eps += 0.01 {
				if holds(eps) {
					t.Fatalf("ε = %v would do, and none was found", eps)
				}
			}
			return
		}
		if !holds(r.Epsilon) {
			t.Fatalf("ε = %v does not satisfy δ = %v", r.Epsilon, delta)
		}
		if smaller := r.Epsilon*(1-1e-8) - 1e-8; smaller > 0 && holds(smaller) {
			t.Fatalf("ε = %v is not the smallest", r.Epsilon)
		}
	})
}

// 4·n·L·T·2^-100 by repeated halving.
func TestSamplerError(t *testing.T) {
	want := 4.0 * 1000 * 200_000 * 100
	for range 100 {
		want /= 2
	}
	if got := SamplerError(1000, 200_000, 100); got != want {
		t.Errorf("sampler error is %v, want %v", got, want)
	}
}

var anyEvent = rapid.Custom(func(t *rapid.T) Event {
	v := math.Exp(rapid.Float64Range(math.Log(20), math.Log(1e8)).Draw(t, "log V"))
	d2 := rapid.Float64Range(0.01, 3).Draw(t, "D2/√V") * math.Sqrt(v)
	z := rapid.Float64Range(0.5, 20).Draw(t, "z")
	q := rapid.SampledFrom([]float64{0.003, 0.03, 0.3, 1}).Draw(t, "q")
	count := rapid.IntRange(1, 50).Draw(t, "count")
	return rapid.SampledFrom([]Event{
		Gaussian(z), SubsampledGaussian(z, q), Skellam(v, d2, 2*d2), SubsampledSkellam(v, d2, 2*d2, q),
	}).Draw(t, "event").Times(count)
})

// Order and grouping of a composition do not matter, to the last bit.
func TestCompositionOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(anyEvent, 1, 4).Draw(t, "events")
		want := epsilon(t, GDPSkellam, 1e-6, events...)
		var single []Event
		for _, e := range events {
			n := e.Count
			e.Count = 1
			if n > 1 {
				single = append(single, e.Times(n-1))
			}
			single = append(single, e)
		}
		mixed := rapid.Permutation(single).Draw(t, "order")
		if got := epsilon(t, GDPSkellam, 1e-6, mixed...); got != want {
			t.Fatalf("in another order ε is %+v, was %+v", got, want)
		}
	})
}

// More noise, fewer steps, a larger δ and a smaller rate never cost more. No sampling is a rate of
// 1. The exact value never exceeds Rényi's.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom([]Accountant{RDP, GDPSkellam}).Draw(t, "accountant")
		e := anyEvent.Draw(t, "event")
		if a == RDP && e.Mechanism == SubsampledSkellamMechanism {
			e = SubsampledGaussian(3, e.SamplingRate).Times(e.Count)
		}
		const delta = 1e-6
		base := epsilon(t, a, delta, e).Epsilon
		atMost := func(what string, eps float64) {
			t.Helper()
			if !(eps <= base*(1+1e-6)+1e-9) { // the series' own precision
				t.Fatalf("%s: ε = %v, above %v", what, eps, base)
			}
		}
		quieter := e
		quieter.NoiseMultiplier *= 1.1
		quieter.Variance *= 1.1
		atMost("more noise", epsilon(t, a, delta, quieter).Epsilon)
		atMost("larger δ", epsilon(t, a, 3*delta, e).Epsilon)
		if e.Count > 1 {
			fewer := e
			fewer.Count--
			atMost("fewer steps", epsilon(t, a, delta, fewer).Epsilon)
		}
		if e.Mechanism.Sampled() {
			rarer := e
			rarer.SamplingRate *= 0.8
			atMost("smaller rate", epsilon(t, a, delta, rarer).Epsilon)
		}
		if e.Mechanism == GaussianMechanism {
			atMost("exact", epsilon(t, Exact, delta, e).Epsilon)
			at1 := SubsampledGaussian(e.NoiseMultiplier, 1).Times(e.Count)
			if got, want := epsilon(t, RDP, delta, at1).Epsilon, epsilon(t, RDP, delta, e).Epsilon; got != want {
				t.Fatalf("rate 1 gives ε = %v, unsampled %v", got, want)
			}
		}
	})
}

func TestValidateReportsEverything(t *testing.T) {
	err := Problem{
		Events:       []Event{{Mechanism: GaussianMechanism, NoiseMultiplier: -1, SamplingRate: 0.5}, Skellam(math.NaN(), 1, math.Inf(1))},
		Delta:        1,
		Accountant:   "moments",
		SamplerError: -1,
	}.Validate()
	for _, want := range []string{
		`unknown accountant "moments"`, "rdp, pld, exact, gdp-skellam, best", "delta is 1", "sampler error is -1",
		"event 0", "noise multiplier is -1", "sampling rate is 0.5", "count is 0",
		"event 1", "variance is NaN", "L1 sensitivity is +Inf",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q:\n%v", want, err)
		}
	}
	if _, perr := (Problem{Delta: 2, Accountant: RDP}).Epsilon(); perr == nil {
		t.Error("Epsilon accepted a delta of 2")
	}
}

func TestTimes(t *testing.T) {
	if e := Gaussian(1).Times(3).Times(4); e.Count != 12 {
		t.Errorf("count is %d, want 12", e.Count)
	}
	for _, e := range []Event{Gaussian(1).Times(0), Gaussian(1).Times(-2), Gaussian(1).Times(math.MaxInt).Times(2)} {
		if e.Validate() == nil {
			t.Errorf("a count of %d was accepted", e.Count)
		}
	}
	_, err := Problem{Events: []Event{Gaussian(1).Times(math.MaxInt), Gaussian(1)}, Delta: 1e-5, Accountant: RDP}.Epsilon()
	if err == nil || !strings.Contains(err.Error(), "too many to count") {
		t.Errorf("a sum of counts that overflows: error %v", err)
	}
}

func TestParse(t *testing.T) {
	for _, a := range accountants {
		if got, err := ParseAccountant(string(a)); err != nil || got != a {
			t.Errorf("ParseAccountant(%q) = %q, %v", a, got, err)
		}
	}
	for _, m := range mechanisms {
		if got, err := ParseMechanism(string(m)); err != nil || got != m {
			t.Errorf("ParseMechanism(%q) = %q, %v", m, got, err)
		}
	}
	if !slices.Contains(mechanisms, SubsampledSkellamMechanism) {
		t.Error("a mechanism cannot be parsed")
	}
	for word, err := range map[string]error{
		"rdp, pld, exact, gdp-skellam, best":                         func() error { _, err := ParseAccountant("prv"); return err }(),
		"gaussian, subsampled-gaussian, skellam, subsampled-skellam": func() error { _, err := ParseMechanism("laplace"); return err }(),
		"user, rating": func() error { _, err := ParseUnit(""); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not list %q", err, word)
		}
	}
}
