package dp

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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

// Epsilon returns the ε at δ that covers the whole search. candidates has the events of a run with each
// candidate, the release of its score among them. samplerError is the samplers' error of one run.
func (s Selection) Epsilon(candidates [][]Event, delta, samplerError float64) (float64, error) {
	r, err := Problem{Delta: delta, Accountant: RDP, Searches: []Search{{Law: s, Runs: candidates, SamplerError: samplerError}}}.Epsilon()
	return r.Epsilon, err
}

// The mean follows from the law as it is defined.
func TestSelectionLaw(t *testing.T) {
	for _, s := range selections {
		law := lawOf(s.Eta, s.Gamma, 2000)
		var mean float64
		for k, p := range law {
			mean += float64(k) * p
		}
		within(t, "mean", s.Runs(), mean, 1e-9)
	}
	for _, s := range []Selection{{-1, 0.5}, {1, 0}, {1, 1}, {math.NaN(), 0.5}, {1, math.NaN()}} {
		if s.Validate() == nil {
			t.Errorf("%+v is a law", s)
		}
	}
}

// divergence returns the Rényi divergence of finite laws.
func divergence(p, q []float64, alpha float64) float64 {
	var sum float64
	for i := range p {
		sum += p[i] * math.Pow(p[i]/q[i], alpha-1) // an infinite sum at a large order, and never NaN
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
		for trial := range 24 {
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
				if !(got <= bound[i]+1e-9) {
					t.Fatalf("%+v, order %v: the best diverges by %v, the bound is %v", s, alpha, got, bound[i])
				}
				closest = math.Max(closest, got/bound[i])
			}
		}
	}
	if !(closest >= 0.2) {
		t.Errorf("no mechanism comes nearer to the bound than %v of it", closest)
	}
}

// searched is ε of a geometric search of so many runs in the mean, each one Gaussian release, by the formula of the paper's theorem 2.
// It takes the best of many orders α and β. The conversion is of Canonne, Kamath and Steinke. A further release costs beside·α.
func searched(z, runs, delta, beside float64) float64 {
	want, beyond := math.Inf(1), math.Inf(1)
	for lb := -3.0; lb < 6; lb += 0.01 {
		beta := 1 + math.Exp(lb)
		beyond = min(beyond, 2*(1-1/beta)*beta/(2*z*z)+2*math.Log(runs)/beta)
	}
	for la := -3.0; la < 6; la += 0.005 {
		alpha := 1 + math.Exp(la)
		rdp := alpha/(2*z*z) + beyond + math.Log(runs)/(alpha-1) + beside*alpha
		want = min(want, rdp+math.Log1p(-1/alpha)-(math.Log(delta)+math.Log(alpha))/(alpha-1))
	}
	return want
}

// ε of a geometric search over one Gaussian release is by its formula.
func TestSelectionEpsilon(t *testing.T) {
	s, delta := Selection{1, 0.1}, 1e-5
	for _, z := range []float64{0.5, 1, 4} {
		want := searched(z, 10, delta, 0)
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

// The samplers' error E counts once a run. The exact mechanism says nothing, and a failed sampler gives the best score and
// tells the world. So the search tells the world if any of its K runs fails. The probability is 1 - Σ_k P(K=k)·(1-E)^k. It
// is computed here from the law's definition. It is the least δ at any ε, so a smaller δ has no ε. E·(1+e^ε) of one run
// alone would leave room.
func TestSelectionCountsTheSamplersOnceARun(t *testing.T) {
	const failure = 1e-6
	for _, s := range selections {
		tells := 0.0
		for k, p := range lawOf(s.Eta, s.Gamma, 3000) {
			tells -= p * math.Expm1(float64(k)*math.Log1p(-failure))
		}
		silent := [][]Event{{Gaussian(1e6)}}
		if got, err := s.Epsilon(silent, 0.98*tells, failure); err != nil || !math.IsInf(got, 1) {
			t.Errorf("%+v: ε = %v, %v at δ = %v; the search tells the world with probability %v", s, got, err, 0.98*tells, tells)
		}
		if mean := s.Runs(); tells > failure*mean || tells < 0.999*failure*mean || mean < 1.3 {
			t.Errorf("%+v: a mean of %v runs fails with probability %v", s, mean, tells)
		}
		// E·(1+e^ε) bounds what the drawn noise adds to δ, so four times the mean is enough for ε near 0.
		if got, err := s.Epsilon(silent, 4*failure*s.Runs()+1e-5, failure); err != nil || !(got < 1.5) {
			t.Errorf("%+v: ε = %v, %v", s, got, err)
		}
	}
}

// A search of normal runs and a further run compose as their Rényi curves add up (Mironov 2017, proposition 1). The expected
// ε is of theorem 2 on a fine grid of orders. A candidate that costs less at every order changes nothing and is left out.
func TestSearchComposes(t *testing.T) {
	delta, z, own := 1e-5, 1.2, 0.9
	law := Selection{Eta: 1, Gamma: 0.25} // four runs in the mean
	want := searched(z, 4, delta, 1/(2*own*own))
	search, err := NewSearch(law, [][]Event{{Gaussian(2 * z)}, {Gaussian(z * math.Sqrt2).Times(2)}, {Gaussian(z)}, {Gaussian(3 * z)}}, 0)
	if err != nil || len(search.Runs) != 1 || len(search.Runs[0]) != 1 || search.Candidates != 4 {
		t.Fatalf("%+v, %v", search, err)
	}
	for _, a := range []Accountant{RDP, Best} {
		got, err := Problem{Events: []Event{Gaussian(own)}, Delta: delta, Accountant: a, Searches: []Search{*search}}.Epsilon()
		if err != nil || got.Epsilon < want*(1-1e-3) || got.Epsilon > 1.02*want || got.Accountant != RDP {
			t.Errorf("%s: %+v, %v; want %v", a, got, err, want)
		}
	}
	for _, p := range []Problem{
		{Delta: delta, Accountant: GDPSkellam, Searches: []Search{*search}},
		{Delta: delta, Accountant: RDP, Searches: []Search{{Candidates: 3}}},
		{Delta: delta, Accountant: RDP, Searches: []Search{{Law: Selection{1, 2}, Runs: search.Runs}}},
	} {
		if r, err := p.Epsilon(); err == nil {
			t.Errorf("%+v costs %v", p, r)
		}
	}
}

// If a unit is replaced, the line of a run that a private search released keeps the statement's δ. The bound is compared with
// the exact chance of an event: the best of K runs is above y, where scores order runs by y, and K is geometric. Then
// P(best <= y) = γF(y)/(1-(1-γ)F(y)). The unit moves F by μ without it, and by 2μ if it is replaced. The bound must be
// above the ε of the worst y. It is at most a half above, as the bound for the unit that is left out is itself.
func TestSearchOfAReplacedUnit(t *testing.T) {
	const delta, gamma, mu = 1e-5, 0.25, 1.0
	beyond := func(mean, y float64) float64 {
		above := math.Erfc((y-mean)/math.Sqrt2) / 2
		return above / (gamma + (1-gamma)*above) // 1 - P(best <= y), without cancellation
	}
	least := func(moved float64) (epsilon float64) {
		for y := -6.0; y < 12; y += 0.01 {
			if a := beyond(moved, y); a > delta {
				epsilon = max(epsilon, math.Log((a-delta)/beyond(0, y)))
			}
		}
		return epsilon
	}
	search, err := NewSearch(Selection{1, gamma}, [][]Event{{Gaussian(1 / mu)}}, 1e-30)
	if err != nil {
		t.Fatal(err)
	}
	s := Statement{Epsilon: GaussianEpsilon(mu, delta), Delta: delta, Unit: User, Relation: ZeroOut, Accountant: GDPSkellam, Sampling: NoSampling, Noise: SkellamNoise}
	if s, err = s.After(*search, nil, 0); err != nil || s.Epsilon < least(mu) {
		t.Fatalf("%v, %v; an event has %v", s, err, least(mu))
	}
	g, ok := s.Replacement(Problem{Searches: []Search{*search}})
	if low := least(2 * mu); !ok || g.Delta != delta || g.Epsilon < low || g.Epsilon > 1.5*low {
		t.Errorf("%+v, %t; an event has ε = %v at %v", g, ok, low, delta)
	}
	if line := s.ReplacementLine(Problem{Searches: []Search{*search}}); !strings.HasSuffix(line, ", delta=1e-05) if a user is replaced by another") {
		t.Error(line)
	}
	search.SamplerError = 1e-9 // it leaves no ε at δ: the line says how far the run is from exact noise, 4 runs on average
	if line := s.ReplacementLine(Problem{Searches: []Search{*search}}); !strings.Contains(line, "delta=1e-05) if a user is replaced by another, within total variation 4e-09") {
		t.Error(line)
	}
}

// Only the candidate that is worst at some order is kept: a sampled run is worse at large orders, a plain one at small orders.
func TestSearchKeepsTheWorstRuns(t *testing.T) {
	law := Selection{1, 0.2}
	runs := [][]Event{{SubsampledGaussian(0.6, 0.02).Times(20)}, {Gaussian(5)}, {Gaussian(2)}, {Gaussian(2.5), Gaussian(9)}}
	kept, err := NewSearch(law, runs, 0)
	if err != nil || len(kept.Runs) != 2 {
		t.Fatalf("%+v, %v", kept, err)
	}
	for _, delta := range []float64{1e-3, 1e-6, 1e-12} {
		all, err := law.Epsilon(runs, delta, 0)
		few, err2 := law.Epsilon(kept.Runs, delta, 0)
		if err != nil || err2 != nil || math.Abs(all-few) > 1e-12*all {
			t.Errorf("δ = %v: all candidates cost %v, %v, the kept ones %v, %v", delta, all, err, few, err2)
		}
	}
}

// Several releases of a run count as one Gaussian release only where a theorem covers each. An integer release of too little
// noise, and a sampled release, stay as they are.
func TestSearchJoinsOnlyWhatATheoremCovers(t *testing.T) {
	few := math.Nextafter(MinGaussianVariance, 0)
	for name, c := range map[string]struct {
		run    []Event
		joined bool
	}{
		"enough noise": {[]Event{Skellam(MinGaussianVariance, 1, 1).Times(3), Gaussian(4)}, true},
		"too little":   {[]Event{Skellam(few, 1, 1).Times(3), Gaussian(4)}, false},
		"sampled":      {[]Event{SubsampledGaussian(4, 0.1), Gaussian(4)}, false},
	} {
		s, err := NewSearch(Selection{1, 0.25}, [][]Event{c.run}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if joined := len(s.Runs) == 1 && len(s.Runs[0]) == 1; joined != c.joined || !joined && !slices.Equal(s.Runs[0], c.run) {
			t.Errorf("%s: the search keeps %+v", name, s.Runs)
		}
	}
}

// A statement after a plain search has no ε, and its JSON, its line and its words say why. After a private search it has the
// ε of the search for the run that won, and more for any other run.
func TestStatementAfterASearch(t *testing.T) {
	alone := Statement{Epsilon: 1, Delta: 1e-5, Unit: User, Relation: ZeroOut, Accountant: GDPSkellam, Sampling: NoSampling, Noise: SkellamNoise}
	plain, err := alone.After(Search{Candidates: 20}, nil, 0)
	if err != nil || !math.IsInf(plain.Epsilon, 1) || plain.Validate() != nil {
		t.Fatalf("%+v, %v, %v", plain, err, plain.Validate())
	}
	if w := plain.Words("the server"); !strings.HasPrefix(w, "No ε holds: the settings were chosen on the private data without a private search (plain search, 20 candidates)") || !strings.Contains(w, "ε = 1 and δ = 1e-05") {
		t.Error(w)
	}
	if line := plain.String(); !strings.HasPrefix(line, "(epsilon=inf, ") || !strings.Contains(line, "chosen=plain, run_epsilon=1)") {
		t.Error(line)
	}
	run := []Event{Gaussian(1 / GaussianMu(1, 1e-5))}
	search, err := NewSearch(Selection{1, 0.25}, [][]Event{run}, 0)
	if err != nil {
		t.Fatal(err)
	}
	won, err := alone.After(*search, nil, 0)
	again, err2 := alone.After(*search, run, 0)
	if err != nil || err2 != nil || won.Validate() != nil || !(won.Epsilon > 1.3 && again.Epsilon > 1.2*won.Epsilon) {
		t.Fatalf("the winner has ε = %v, %v, another run %v, %v; %v", won.Epsilon, err, again.Epsilon, err2, won.Validate())
	}
	if w := won.Words(""); !strings.Contains(w, "private search, 1 candidate, 4 runs on average") || !strings.Contains(w, "The run alone has ε = 1.") {
		t.Error(w)
	}
	for _, s := range []Statement{plain, won} {
		text, err := json.Marshal(s)
		var back Statement
		if err != nil || json.Unmarshal(text, &back) != nil || back != s {
			t.Errorf("%s, %v: %+v", text, err, back)
		}
		s.Epsilon, s.Accountant = 1, GDPSkellam
		if s.Validate() == nil {
			t.Errorf("a run after a %s states the ε of the run alone", s.Chosen)
		}
	}
}
