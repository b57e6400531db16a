package dp

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
)

// δ(ε) of one sample by its definition, integrated. The unit adds 1 in one world and -1 in the
// other, both with the chance q; two vectors of norm at most 1 are at most that far apart. z of
// ForReplacement must meet the budget. It may exceed the least z by no more than the detour over
// the data set between costs: half of z does not meet the budget.
func TestForReplacement(t *testing.T) {
	effort.NotShort(t, "compositions take a second")
	hockey := func(epsilon, z, q float64) (sum float64) {
		density := func(x, at float64) float64 { return math.Exp(-(x-at)*(x-at)/(2*z*z)) / (z * math.Sqrt(2*math.Pi)) }
		step := z / 500
		for x := -12*z - 1; x < 12*z+1; x += step {
			none := (1 - q) * density(x, 0)
			sum += step * max(0, none+q*density(x, 1)-math.Exp(epsilon)*(none+q*density(x, -1)))
		}
		return sum
	}
	for q, epsilons := range map[float64][]float64{1: {.25}, .2: {1, 4}, .01: {4}} {
		for _, epsilon := range epsilons {
			b := Budget{Epsilon: epsilon, Delta: 1e-4, Accountant: PLD}
			z, spent, err := NoiseMultiplier(b.ForReplacement(), 1, q)
			if err != nil {
				t.Fatal(err)
			}
			if stated := b.Replaced(spent).Epsilon; stated > epsilon || stated < .999*epsilon {
				t.Errorf("q = %v: ε = %v is stated as %v", q, epsilon, stated)
			}
			if got := hockey(epsilon, z, q); got > b.Delta*(1+1e-6) {
				t.Errorf("q = %v, ε = %v: δ is %v by integration; at most %v is stated", q, epsilon, got, b.Delta)
			}
			if got := hockey(epsilon, z/2, q); got < b.Delta {
				t.Errorf("q = %v, ε = %v: half the noise has δ %v, within %v", q, epsilon, got, b.Delta)
			}
		}
	}
}

// replacedLosses returns the probabilities of the losses i·step, i from -len/2, of one sample in which
// a unit adds 1 instead of -1, both with the chance q. Each is rounded to the nearest multiple, which
// changes δ by the order of step².
func replacedLosses(z, q, step float64) []float64 {
	density := func(x, at float64) float64 { return math.Exp(-(x-at)*(x-at)/(2*z*z)) / (z * math.Sqrt(2*math.Pi)) }
	const half = 1_000
	p, dx := make([]float64, 2*half+1), z/500
	for x := -8*z - 1; x < 8*z+1; x += dx {
		none := (1 - q) * density(x, 0)
		one, other := none+q*density(x, 1), none+q*density(x, -1)
		p[half+int(math.Round(math.Log(one/other)/step))] += one * dx
	}
	return p
}

// convolved returns the probabilities of a sum of independent losses, and leaves out what is below 1e-25.
func convolved(a, b []float64) []float64 {
	sum := make([]float64, len(a)+len(b)-1)
	for i, x := range a {
		if x < 1e-25 {
			continue
		}
		for j, y := range b {
			sum[i+j] += x * y
		}
	}
	return sum
}

// lossDelta returns δ(ε) by its definition, E[max(0, 1 - e^(ε-L))].
func lossDelta(p []float64, step, epsilon float64) (delta float64) {
	for i, mass := range p {
		if l := float64(i-len(p)/2) * step; l > epsilon {
			delta += mass * -math.Expm1(epsilon-l)
		}
	}
	return delta
}

// The ε of Replaced has at most the stated δ, where losses are added up by convolution. With 0.85 times
// that ε, δ is exceeded, so that Replaced is close to the least; Rényi divergences give more. The worst
// pair has 1 and -1, by Kahane's inequality for the likelihood ratio, which is a sum of lognormals.
func TestReplacedSamples(t *testing.T) {
	effort.NotShort(t, "convolutions take a second")
	const delta, step = 1e-4, 0.01
	for _, c := range []struct {
		z, q  float64
		count int
	}{{1, 0.2, 1}, {2, 0.5, 3}, {1.5, 0.05, 4}, {0.9, 0.05, 2}} {
		one := replacedLosses(c.z, c.q, step)
		all := one
		for range c.count - 1 {
			all = convolved(all, one)
		}
		p := Problem{Events: []Event{SubsampledGaussian(c.z, c.q).Times(c.count)}, Delta: delta, Accountant: PLD}
		r, err := p.Replaced()
		if err != nil || r.Accountant != PLD {
			t.Fatal(r, err)
		}
		if got := lossDelta(all, step, r.Epsilon); got > delta*(1+1e-3) {
			t.Errorf("%+v: ε = %v has δ = %v, above %v", c, r.Epsilon, got, delta)
		}
		if got := lossDelta(all, step, 0.85*r.Epsilon); got < delta {
			t.Errorf("%+v: 0.85 of ε = %v has δ = %v, within %v", c, r.Epsilon, got, delta)
		}
		p.Accountant = RDP
		if by, err := p.Replaced(); err != nil || by.Epsilon < r.Epsilon {
			t.Errorf("%+v: by Rényi divergences %+v, %v; with distributions %v", c, by, err, r.Epsilon)
		}
	}
}

// Skellam noise with and without samples: δ is a sum over outcomes, where the unit adds d or -d. With
// samples, only the two steps cover Skellam noise, whose three laws no Gaussians are known to dominate.
func TestReplacedSkellam(t *testing.T) {
	effort.NotShort(t, "convolutions take a second")
	const delta = 1e-4
	for v, shifts := range map[float64][]int{MinGaussianVariance: {1}, 100: {10}} {
		n := int(30*math.Sqrt(v) + 200)
		table := newSkellamTable(v, n)
		for _, d := range shifts {
			for q, accountants := range map[float64][]Accountant{1: {GDPSkellam, RDP}, 0.2: {GDPSkellam}, 0.05: {GDPSkellam}} {
				for _, a := range accountants {
					e := Skellam(v, float64(d), float64(d))
					if q < 1 {
						e = SubsampledSkellam(v, float64(d), float64(d), q)
					}
					r, err := Problem{Events: []Event{e}, Delta: delta, Accountant: a}.Replaced()
					if err != nil {
						t.Fatal(err)
					}
					at := func(k int) float64 { return table.p[min(max(k, -k), n)] }
					exceeds := func(epsilon float64) (sum float64) {
						for k := -n + d; k <= n-d; k++ {
							none := (1 - q) * at(k)
							sum += max(0, none+q*at(k-d)-math.Exp(epsilon)*(none+q*at(k+d)))
						}
						return sum
					}
					if got := exceeds(r.Epsilon); got > delta*(1+1e-9) {
						t.Errorf("V = %v, d = %v, q = %v, %s: ε = %v has δ = %v, above %v", v, d, q, a, r.Epsilon, got, delta)
					}
					if got := exceeds(0.6 * r.Epsilon); r.Epsilon > 0 && got < delta {
						t.Errorf("V = %v, d = %v, q = %v, %s: a far smaller ε than %v has δ = %v", v, d, q, a, r.Epsilon, got)
					}
				}
			}
		}
	}
}

// The samplers' error E adds E·(1 + e^ε) to δ, once.
func TestReplacedWithSamplerError(t *testing.T) {
	p := Problem{Events: []Event{SubsampledGaussian(1, 0.1).Times(10)}, Delta: 1e-5, Accountant: PLD, SamplerError: 1e-9}
	with, err := p.Replaced()
	if err != nil {
		t.Fatal(err)
	}
	p.Delta -= p.SamplerError * (1 + math.Exp(with.Epsilon))
	p.SamplerError = 0
	without, err := p.Replaced()
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(with.Epsilon-without.Epsilon) > 1e-6 {
		t.Errorf("%v; at the δ that is left %v", with.Epsilon, without.Epsilon)
	}
}
