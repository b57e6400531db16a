package dp

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/effort"
)

// Published values. Google's dp_accounting has ε of 1,000 and 10,000 steps, in four decimals.
// fourier-accountant (Koskela, Jälkö and Honkela) prints δ at ε = 1 in its README, for 10,000 steps
// (the example beside it reads 1,000). The test of three steps in five decimals is dp_accounting's
// own.
func TestPLDTable(t *testing.T) {
	for _, c := range []struct {
		z, q           float64
		steps          int
		delta, epsilon float64
		half           float64 // of the last decimal
	}{
		{1, 0.01, 1000, 1e-5, 1.8282, 0.5e-4},
		{1, 0.01, 10_000, 1e-5, 6.1877, 0.5e-4},
		{4, 0.01, 10_000, 4.243484012034273e-06, 1, 1e-9},
		{0.5, 0.2, 3, 0.15594, 1, 0.7e-4}, // the last decimal of δ, over -δ'(ε) = 0.097
	} {
		r := epsilon(t, PLD, c.delta, SubsampledGaussian(c.z, c.q).Times(c.steps))
		if over := r.Epsilon - c.epsilon; !(over >= -c.half && over <= c.half+1e-5+1e-5*c.epsilon) {
			t.Errorf("z = %v, q = %v, %d steps: ε = %.7g, want %v or just above", c.z, c.q, c.steps, r.Epsilon, c.epsilon)
		}
		if r.Accountant != PLD {
			t.Errorf("accountant is %s, want pld", r.Accountant)
		}
	}
}

// One release, in both directions, against the closed form.
func TestPLDOneRelease(t *testing.T) {
	deltas := [...]float64{1e-3, 1e-5, 1e-12}
	for i, z := range []float64{0.3, 0.5, 1, 3, 30} {
		for k, q := range []float64{1e-3, 0.01, 0.2, 0.5, 0.99} {
			m, delta := mixture{z, q}, deltas[(i+k)%len(deltas)]
			if eps := epsilon(t, PLD, delta, m.event()).Epsilon; eps > 0 {
				tight(t, eps, delta, 6e-5, m)
			} else if at := exactDelta(0, m); at > delta {
				t.Errorf("%v at δ = %v: ε is 0, and δ(0) = %v", m, delta, at)
			}
		}
	}
}

// Two releases, equal and different, with and without sampling, against quadrature.
func TestPLDTwoReleases(t *testing.T) {
	effort.NotShort(t, "convolutions take a second")
	for _, c := range []struct {
		delta float64
		parts [2]mixture
	}{
		{1e-3, [2]mixture{{1, 0.1}, {1, 0.1}}},
		{1e-6, [2]mixture{{0.5, 0.01}, {0.5, 0.01}}},
		{1e-12, [2]mixture{{0.8, 0.3}, {2, 0.02}}},
		{1e-3, [2]mixture{{1, 0.05}, {3, 1}}},
		{1e-6, [2]mixture{{10, 0.6}, {0.7, 0.001}}},
	} {
		tight(t, epsilon(t, PLD, c.delta, c.parts[0].event(), c.parts[1].event()).Epsilon, c.delta, 6e-5, c.parts[:]...)
	}
}

// Many releases, against a lower bound. The truth lies between the two, so their gap is at least
// the accountant's error.
func TestPLDGap(t *testing.T) {
	effort.NotShort(t, "grids that are not used take a second")
	for _, c := range []struct {
		parts []optimisticPart
		delta float64
		step  float64 // of the lower bound
	}{
		{[]optimisticPart{{mixture{1, 0.02}, 1000}}, 1e-5, 8e-5},
		{[]optimisticPart{{mixture{1, 0.01}, 10_000}}, 1e-5, 2e-5},
		{[]optimisticPart{{mixture{2, 0.1}, 400}, {mixture{1.2, 0.1}, 50}}, 1e-5, 1e-4},
		{[]optimisticPart{{mixture{1, 0.02}, 900}, {mixture{4, 1}, 3}}, 1e-5, 1e-4},
	} {
		if c.step < 4e-5 && !effort.Long() {
			continue // so fine a grid takes a second
		}
		var events []Event
		for _, p := range c.parts {
			events = append(events, p.mixture.event().Times(p.count))
		}
		low := optimisticEpsilon(c.parts, c.delta, c.step)
		got := epsilon(t, PLD, c.delta, events...).Epsilon
		t.Logf("%v: ε from %.7f to %.7f, gap %.1e relative", c.parts, low, got, got/low-1)
		if !(got >= low && got <= low*(1+5e-5)) {
			t.Errorf("%v: ε = %.9g, and the lower bound %.9g", c.parts, got, low)
		}
	}
}

// At a rate of 1 - 1e-12 the grid must give the ε of the closed form without sampling: δ differs by
// n·1e-12 at most. This holds from large to tiny δ.
func TestPLDAgainstClosedForm(t *testing.T) {
	for _, c := range []struct {
		z     float64
		steps int
	}{{1, 1}, {0.2, 3}, {5, 10}, {30, 1000}, {100, 50_000}, {1, 100}} {
		for _, delta := range []float64{0.01, 1e-5, 1e-8} {
			want := GaussianEpsilon(math.Sqrt(float64(c.steps))/c.z, delta)
			got := epsilon(t, PLD, delta, SubsampledGaussian(c.z, 1-1e-12).Times(c.steps)).Epsilon
			// The bound may be below by n·1e-12/δ, a hundredth of it over λ, and that over ε.
			if !(got >= want*(1-1e-4) && got <= want*(1+6e-5)+1e-9) {
				t.Errorf("z = %v, %d steps, δ = %v: ε = %.9g, want %.9g", c.z, c.steps, delta, got, want)
			}
		}
	}
	// Without sampling the answer is the closed form itself.
	events := []Event{Gaussian(3).Times(4), Gaussian(7), SubsampledGaussian(9, 1).Times(2)}
	want := GaussianEpsilon(math.Sqrt(4./9+1./49+2./81), 1e-9)
	within(t, "ε without sampling", epsilon(t, PLD, 1e-9, events...).Epsilon, want, 1e-12)
}

// A δ of 1e-12 and far less is as good as any other: tilting makes the transform's
// error relative. Two releases can be checked by quadrature, a thousand by the
// bounds on either side.
func TestPLDTinyDelta(t *testing.T) {
	for _, delta := range []float64{1e-12, 1e-30, 1e-100} {
		m := mixture{1, 0.3}
		tight(t, epsilon(t, PLD, delta, m.event()).Epsilon, delta, 6e-5, m)
	}
	many := SubsampledGaussian(2, 0.05).Times(1000)
	last := 0.0
	for _, delta := range []float64{1e-3, 1e-6, 1e-9, 1e-12, 1e-15} {
		got := epsilon(t, PLD, delta, many).Epsilon
		if rdp := epsilon(t, RDP, delta, many).Epsilon; !(got > last && got < rdp && got > 0.8*rdp) {
			t.Errorf("δ = %v: ε = %v, want above %v and just below Rényi's %v", delta, got, last, rdp)
		}
		last = got
	}
}

var anyGaussian = rapid.Custom(func(t *rapid.T) Event {
	z := math.Exp(rapid.Float64Range(math.Log(0.4), math.Log(30)).Draw(t, "log z"))
	count := int(math.Exp(rapid.Float64Range(0, 8).Draw(t, "log count")))
	if rapid.Bool().Draw(t, "sampled") {
		q := math.Exp(rapid.Float64Range(math.Log(5e-3), 0).Draw(t, "log q"))
		return SubsampledGaussian(z, q).Times(count)
	}
	return Gaussian(z).Times(count)
})

// For every mixture, ε is at most Rényi's bound and the cost without sampling, and at least the
// cost of any part of it.
func TestPLDLiesBetween(t *testing.T) {
	effort.NotShort(t, "convolutions take a second")
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(anyGaussian, 1, 3).Draw(t, "events")
		delta := math.Exp(rapid.Float64Range(-27, -4).Draw(t, "log delta"))
		got := epsilon(t, PLD, delta, events...).Epsilon
		if rdp := epsilon(t, RDP, delta, events...).Epsilon; !(got <= rdp*(1+6e-5)) {
			t.Fatalf("ε = %v is above Rényi's %v", got, rdp)
		}
		var plain []Event
		for _, e := range events {
			plain = append(plain, Gaussian(e.NoiseMultiplier).Times(e.Count))
			if one := epsilon(t, PLD, delta, e).Epsilon; !(one <= got*(1+6e-5)) {
				t.Fatalf("%+v alone costs ε = %v, with others %v", e, one, got)
			}
		}
		if exact := epsilon(t, Exact, delta, plain...).Epsilon; !(got <= exact*(1+1e-12)) { // the order of a sum
			t.Fatalf("ε = %v is above the %v that no sampling costs", got, exact)
		}
	})
}

// More noise, a larger δ, fewer steps and a smaller rate never cost more, except for the precision
// that the grid promises.
func TestPLDMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyGaussian.Draw(t, "event")
		delta := math.Exp(rapid.Float64Range(-27, -4).Draw(t, "log delta"))
		base := epsilon(t, PLD, delta, e).Epsilon
		atMost := func(what string, eps float64) {
			t.Helper()
			if !(eps <= base*(1+6e-5)) {
				t.Fatalf("%s: ε = %v, above %v", what, eps, base)
			}
		}
		quieter := e
		quieter.NoiseMultiplier *= 1.001
		atMost("more noise", epsilon(t, PLD, delta, quieter).Epsilon)
		atMost("larger δ", epsilon(t, PLD, 1.01*delta, e).Epsilon)
		if e.Count > 1 {
			fewer := e
			fewer.Count--
			atMost("one step fewer", epsilon(t, PLD, delta, fewer).Epsilon)
		}
		if e.Mechanism.Sampled() {
			rarer := e
			rarer.SamplingRate *= 0.999
			atMost("smaller rate", epsilon(t, PLD, delta, rarer).Epsilon)
		}
	})
}

// Extremes are answered, never by NaN: by 0 if the two worlds hardly differ, and by the bound
// without sampling if the grid gives up.
func TestPLDExtremes(t *testing.T) {
	effort.NotShort(t, "convolutions take a second")
	for _, c := range []struct {
		event    Event
		delta    float64
		low, top float64
	}{
		{SubsampledGaussian(1e18, 0.5), 1e-10, 0, 0},
		{SubsampledGaussian(1, 1e-12).Times(1000), 1e-8, 0, 0},               // total variation below 1e-9
		{SubsampledGaussian(100, 1e-3).Times(1_000_000), 1e-9, 0.045, 0.055}, // 5μ, for the normal limit's μ = 0.01
		{SubsampledGaussian(1, 0.001).Times(1_000_000), 1e-5, 5.9, 6.1},
		{SubsampledGaussian(0.3, 0.1).Times(15), 1e-5, 35, 50},
		{SubsampledGaussian(1e-5, 0.5), 1e-5, 5.0e9, 5.1e9}, // 1/2z² and a little, the limit
		{SubsampledGaussian(1e-200, 0.5), 1e-5, math.Inf(1), math.Inf(1)},
		{SubsampledGaussian(1e9, 0.5).Times(math.MaxInt), 1e-5, 1, 20}, // μ = 3.04 without sampling
		{SubsampledGaussian(1, 0.5), 1e-300, 20, 60},
		{SubsampledGaussian(3, 0.5).Times(100), 0.999, 0, 0},
	} {
		if got := epsilon(t, PLD, c.delta, c.event).Epsilon; !(got >= c.low && got <= c.top) {
			t.Errorf("%+v at δ = %v: ε = %v, want from %v to %v", c.event, c.delta, got, c.low, c.top)
		}
	}
	c, err := compose([]Event{SubsampledGaussian(1, 0.1)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := pldBound(c)
	if err != nil {
		t.Fatal(err)
	}
	if eps := b.epsilon(0); !math.IsInf(eps, 1) {
		t.Errorf("at δ = 0, ε = %v", eps)
	}
}

// The samplers' error is charged: ε satisfies δ(ε) + E·(1 + e^ε) <= δ, by the
// closed form of δ of one release.
func TestPLDChargesSamplerError(t *testing.T) {
	const delta, e = 1e-5, 1e-8
	m := mixture{1, 0.2}
	r, err := Problem{Events: []Event{m.event()}, Delta: delta, Accountant: PLD, SamplerError: e}.Epsilon()
	if err != nil {
		t.Fatal(err)
	}
	left := delta - e*(1+math.Exp(r.Epsilon))
	if d := m.delta(removed, r.Epsilon); d > left {
		t.Errorf("ε = %v: δ(ε) = %v, above the %v that samplers leave", r.Epsilon, d, left)
	}
	if d := m.delta(removed, r.Epsilon*(1-1e-4)); d <= left {
		t.Errorf("ε = %v is not the smallest", r.Epsilon)
	}
}

func TestPLDRefusesOtherMechanisms(t *testing.T) {
	for _, e := range []Event{Skellam(1e4, 300, 3000), SubsampledSkellam(1e4, 300, 3000, 0.1)} {
		_, err := Problem{Events: []Event{SubsampledGaussian(1, 0.1), e}, Delta: 1e-5, Accountant: PLD}.Epsilon()
		if !errors.Is(err, ErrNoAccountant) || !strings.Contains(err.Error(), string(e.Mechanism)) {
			t.Errorf("%s: error %v, want ErrNoAccountant that names it", e.Mechanism, err)
		}
	}
}

// A memory gives what was computed, and computes nothing twice.
func TestMemory(t *testing.T) {
	var m memory[float64]
	computed := 0
	for _, key := range []string{"a", "b", "a", "b"} {
		got, err := m.recall([]byte(key), func() (float64, error) { computed++; return float64(key[0]), nil })
		if got != float64(key[0]) || err != nil {
			t.Errorf("%s costs %v", key, got)
		}
	}
	if computed != 2 {
		t.Errorf("2 costs were computed %d times", computed)
	}
	keys := map[string]bool{}
	p := pldComposition{parts: []lossPart{{newGaussianLoss(1, 0.5), 2}}}
	for _, other := range []pldComposition{
		p, {parts: p.parts, mu: 1}, {parts: p.parts, distance: 1}, {parts: p.parts, releases: 1},
		{parts: []lossPart{{newGaussianLoss(2, 0.5), 2}}}, {parts: []lossPart{{newGaussianLoss(1, 0.25), 2}}}, {parts: []lossPart{{newGaussianLoss(1, 0.5), 3}}},
	} {
		keys[string(other.key(1e-5, []direction{removed, added}))] = true
	}
	keys[string(p.key(1e-6, []direction{removed, added}))] = true
	keys[string(p.key(1e-5, []direction{removed}))] = true
	if len(keys) != 9 {
		t.Errorf("9 costs have %d keys", len(keys))
	}
}

// forget empties the memories, so that a benchmark computes.
func forget() {
	solvedPLD.forget()
	sampledCurves.forget()
	latestLosses.forget()
}

func (m *memory[V]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.values)
}

func BenchmarkPLD(b *testing.B) {
	for _, c := range []Event{
		SubsampledGaussian(1, 0.01), SubsampledGaussian(1, 0.01).Times(1000), SubsampledGaussian(1, 0.01).Times(10_000),
		SubsampledGaussian(10, 0.01).Times(10_000), SubsampledGaussian(0.5, 0.001).Times(10_000), SubsampledGaussian(1, 0.001).Times(1_000_000),
	} {
		b.Run(fmt.Sprintf("z=%v,q=%v,T=%d", c.NoiseMultiplier, c.SamplingRate, c.Count), func(b *testing.B) {
			for b.Loop() {
				forget()
				if _, err := (Problem{Events: []Event{c}, Delta: 1e-5, Accountant: PLD}).Epsilon(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
