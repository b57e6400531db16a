package dp

import (
	"math"
	"math/rand/v2"
	"testing"
)

// lawOf returns the probabilities of 1 to most runs by the definition: proportional to
// Γ(k+η)/(k!·Γ(η))·(1-γ)^k, and to (1-γ)^k/k for η = 0.
func lawOf(eta, gamma float64, most int) []float64 {
	law, sum := make([]float64, most+1), 0.0
	for k := 1; k <= most; k++ {
		a, _ := math.Lgamma(float64(k) + eta)
		b, _ := math.Lgamma(float64(k) + 1)
		law[k] = math.Exp(a - b + float64(k)*math.Log1p(-gamma))
		sum += law[k]
	}
	for k := range law {
		law[k] /= sum
	}
	return law
}

var selections = []Selection{{1, 0.2}, {0, 0.1}, {0.5, 0.3}, {-0.5, 0.05}, {3, 0.4}}

// The mean and the draws follow from the law as it is defined.
func TestSelectionLaw(t *testing.T) {
	for _, s := range selections {
		law := lawOf(s.Eta, s.Gamma, 2000)
		var mean, below float64
		for k, p := range law {
			mean += float64(k) * p
		}
		within(t, "mean", s.Runs(), mean, 1e-9)
		for k := 1; k < 12; k++ {
			if got := s.Draw(below + law[k]/2); got != k {
				t.Errorf("%+v: the middle of the probability of %d gives %d", s, k, got)
			}
			below += law[k]
		}
		back, err := SelectionOf(s.Eta, s.Runs())
		if err != nil || math.Abs(back.Gamma-s.Gamma) > 1e-9 {
			t.Errorf("%+v: %+v, %v", s, back, err)
		}
	}
	for _, s := range []Selection{{-1, 0.5}, {1, 0}, {1, 1}, {math.NaN(), 0.5}, {1, math.NaN()}} {
		if s.Validate() == nil {
			t.Errorf("%+v is a law", s)
		}
	}
	if _, err := SelectionOf(1, 1); err == nil {
		t.Error("a law with one run in the mean")
	}
}

// divergence returns the Rényi divergence of finite laws.
func divergence(p, q []float64, alpha float64) float64 {
	var sum float64
	for i := range p {
		sum += math.Pow(p[i], alpha) * math.Pow(q[i], 1-alpha)
	}
	return math.Log(sum) / (alpha - 1)
}

// best returns the law of the best of a random number of outputs, which are ordered by their scores:
// the probability that all of k are at most i is P(at most i)^k.
func bestOf(p, law []float64) []float64 {
	at := func(x float64) (sum float64) {
		power := 1.0
		for k := 1; k < len(law); k++ {
			power *= x
			sum += law[k] * power
		}
		return sum
	}
	out, below := make([]float64, len(p)), 0.0
	for i := range p {
		out[i] = at(math.Min(1, below+p[i])) - at(below)
		below += p[i]
	}
	return out
}

// The divergence of the best of a random number of runs is computed exactly, for random mechanisms of
// seven outputs and mechanisms whose best output tells most. It never exceeds the bound, and comes
// within a factor of the bound for some.
func TestSelectionBoundsTheBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	closest := 0.0
	for _, s := range selections {
		law := lawOf(s.Eta, s.Gamma, 3000)
		for trial := range 60 {
			p, q := make([]float64, 7), make([]float64, 7)
			var sp, sq float64
			for i := range p {
				p[i] = math.Exp(-3 * rng.Float64())
				q[i] = p[i] * math.Exp((rng.Float64()-0.5)*0.6)
				if trial%3 == 0 && i == 6 { // a rare best output
					p[i], q[i] = 1e-3, 2e-3
				}
				sp, sq = sp+p[i], sq+q[i]
			}
			for i := range p {
				p[i], q[i] = p[i]/sp, q[i]/sq
			}
			run := make(renyiCurve, len(renyiOrders))
			for i, alpha := range renyiOrders {
				run[i] = math.Max(divergence(p, q, alpha), divergence(q, p, alpha))
			}
			bound := s.renyi(run)
			a, b := bestOf(p, law), bestOf(q, law)
			for i, alpha := range renyiOrders {
				if alpha > 64 {
					break
				}
				got := math.Max(divergence(a, b, alpha), divergence(b, a, alpha))
				if got > bound[i]+1e-9 {
					t.Fatalf("%+v, order %v: the best diverges by %v, the bound is %v", s, alpha, got, bound[i])
				}
				closest = math.Max(closest, got/bound[i])
			}
		}
	}
	if closest < 0.2 {
		t.Errorf("no mechanism comes nearer to the bound than %v of it", closest)
	}
}

// ε of a geometric search over one Gaussian release, by the formula of the paper's theorem 2.
// It takes the best of many orders α and β. The conversion is of Canonne, Kamath and Steinke.
func TestSelectionEpsilon(t *testing.T) {
	s, delta := Selection{1, 0.1}, 1e-5
	for _, z := range []float64{0.5, 1, 4} {
		want := math.Inf(1)
		for la := -3.0; la < 6; la += 0.005 {
			alpha := 1 + math.Exp(la)
			beyond := math.Inf(1)
			for lb := -3.0; lb < 6; lb += 0.01 {
				beta := 1 + math.Exp(lb)
				beyond = min(beyond, 2*(1-1/beta)*beta/(2*z*z)+2*math.Log(10)/beta)
			}
			rdp := alpha/(2*z*z) + beyond + math.Log(10)/(alpha-1)
			want = min(want, rdp+math.Log1p(-1/alpha)-(math.Log(delta)+math.Log(alpha))/(alpha-1))
		}
		got, err := s.Epsilon([][]Event{{Gaussian(z)}, {Gaussian(2 * z)}}, delta, 0)
		if err != nil || got < want*(1-1e-3) || got > want*1.02 {
			t.Errorf("z %v: %v, %v; want %v", z, got, err, want)
		}
		skellam, err := s.Epsilon([][]Event{{Skellam(1e8*z*z, 1e4, 1e4)}}, delta, 1e-17)
		if err != nil || math.Abs(skellam-got) > 1e-3*got {
			t.Errorf("z %v: Skellam noise gives %v, %v; normal noise %v", z, skellam, err, got)
		}
		single, err := Problem{Events: []Event{Gaussian(z)}, Delta: delta, Accountant: RDP}.Epsilon()
		if err != nil || got < single.Epsilon {
			t.Errorf("z %v: a search costs %v, one run %v, %v", z, got, single.Epsilon, err)
		}
	}
	if _, err := s.Epsilon(nil, delta, 0); err == nil {
		t.Error("no candidates")
	}
	if _, err := s.Epsilon([][]Event{{{Mechanism: GaussianMechanism}}}, delta, 0); err == nil {
		t.Error("an event that is none")
	}
}
