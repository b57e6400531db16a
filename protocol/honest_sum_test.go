package protocol_test

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// skellam is the law of P - Q, both Poisson of mean v/2, from -m to m: two tables of
// e^-µ µ^k/k!, convolved.
func skellam(v float64, m int) []float64 {
	p := make([]float64, 2*m)
	for k := range p {
		lg, _ := math.Lgamma(float64(k + 1))
		p[k] = math.Exp(float64(k)*math.Log(v/2) - v/2 - lg)
	}
	out := make([]float64, 2*m+1)
	for i := range out {
		for k := range p {
			if j := k + i - m; j >= 0 && j < len(p) {
				out[i] += p[k] * p[j]
			}
		}
	}
	return out
}

func reachPlan(length int, variance, linf float64, round uint64) *protocol.Plan {
	return &protocol.Plan{Round: round, Cohort: protocol.Cohort{Clients: 10}, Releases: []protocol.Release{
		{Name: "g", Len: length, L2: 20, LInf: linf, MaxNonZero: 1, Scale: 1, Width: 32, Noise: protocol.Noise{Kind: protocol.Split, Variance: variance}}}}
}

// Noise exceeds its part of the reach with probability at most 2^-40 over all rounds, by the exact
// law of two coordinates. That part is within 1.8 times the reach that the Gaussian of the same
// variance would need.
func TestReachOfNoise(t *testing.T) {
	for _, v := range []float64{0.5, 4, 60} {
		const m = 260
		law := skellam(v, m)
		over, chance := 0., 0.
		for i := uint64(1); i <= 20; i++ {
			p := reachPlan(2, v, 0, i)
			r := p.HonestSumBound(p.Releases[0], 10, 10)
			linf, l2 := r.LInf-10*math.Floor(20.5), r.L2-10*20.5
			for x := -m; x <= m; x++ {
				if math.Abs(float64(x)) > linf {
					over += 2 * law[x+m]
				}
				for y := -m; y <= m; y++ {
					if float64(x*x+y*y) > l2*l2 {
						chance += law[x+m] * law[y+m]
					}
				}
			}
			if z := 8.5 * math.Sqrt(v); v > 50 && linf > 1.8*z {
				t.Errorf("variance %v, round %d: a coordinate's noise reaches %v, %v deviations", v, i, linf, linf/math.Sqrt(v))
			}
		}
		if over+chance > 0x1p-40 {
			t.Errorf("variance %v: noise is beyond its reach with a chance of %g in a coordinate and %g in L2", v, over, chance)
		}
	}
	// In many coordinates the norm is close to its expectation, √(Len·v).
	p := reachPlan(200_000, 1e6, 0, 1)
	if got, want := p.HonestSumBound(p.Releases[0], 10, 10).L2-205, math.Sqrt(200_000*1e6); got < want || got > 1.1*want {
		t.Errorf("the noise's norm reaches %g, expected is %g", got, want)
	}
}

// Clients reach as many times what one does, in a coordinate by the lower of two bounds.
func TestReachOfClients(t *testing.T) {
	for _, c := range []struct{ linf, client, sum float64 }{
		{0, 20, 140}, {3, 3, 21}, {3.5, 4, 28}, {90, 20, 140}, // d2 = 20.5
	} {
		p := reachPlan(5, 1, c.linf, 1)
		p.Releases[0].Noise = protocol.Noise{}
		r := p.HonestSumBound(p.Releases[0], 7, 7)
		if r.Client.LInf != c.client || r.LInf != c.sum || r.Client.L2 != 20.5 || math.Abs(r.L2-7*20.5) > 1e-6 {
			t.Errorf("with coordinates up to %v: %+v, want %v of a client and %v of 7", c.linf, r, c.client, c.sum)
		}
	}
}

// More noise stays of clients that did not answer, and reach grows with it.
func TestReachOfTheSilent(t *testing.T) {
	p := reachPlan(5, 100, 0, 1)
	p.Cohort.Tolerance = 0.5
	all, half := p.HonestSumBound(p.Releases[0], 10, 10), p.HonestSumBound(p.Releases[0], 10, 5)
	if !(half.LInf > all.LInf && half.L2 > all.L2) {
		t.Errorf("reach %+v when all answered and %+v when half did", all, half)
	}
}

// pairPlan has two releases of one coordinate and their sums over four clients.
func pairPlan(variance, scale float64, round uint64) *protocol.Plan {
	r := protocol.Release{Name: "x", Len: 1, L2: 20, MaxNonZero: 1, Scale: scale, Width: 32}
	if variance > 0 {
		r.Noise = protocol.Noise{Kind: protocol.Split, Variance: variance}
	}
	y := r
	y.Name = "y"
	return &protocol.Plan{Round: round, Cohort: protocol.Cohort{Clients: 4}, Releases: []protocol.Release{r, y}}
}

// twice is the limit x <= 2y, stated so many times.
func twice(times int) protocol.Limits {
	return func(hear func(terms ...protocol.Term)) {
		for range times {
			hear(protocol.Term{Factor: 1}, protocol.Term{Release: 1, Factor: -2})
		}
	}
}

// An honest client's input is beyond its bounds with probability at most 2^-40 over all clients, rounds and releases. This goes by
// the exact law of two coordinates of a share of the noise. Coordinates are never allowed more than the norm.
func TestInputBound(t *testing.T) {
	const m, rounds = 260, 20
	for _, v := range []float64{0.5, 4, 60} {
		p := reachPlan(2, 10*v, 3, 1) // of ten clients, who all stay
		law := skellam(v, m)
		linf, l2 := p.InputBound(p.Releases[0], rounds)
		if linf <= 3 || l2 <= 20.5 || linf > l2 {
			t.Errorf("variance %v: bounds are %v and %v", v, linf, l2)
		}
		over, chance := 0., 0.
		for x := -m; x <= m; x++ {
			if math.Abs(float64(x)) > linf-3 {
				over += 2 * law[x+m]
			}
			for y := -m; y <= m; y++ {
				if math.Hypot(float64(x), float64(y)) > l2/(1+1e-9)-20.5 {
					chance += law[x+m] * law[y+m]
				}
			}
		}
		if all := (over + chance) * rounds * 10; all > 0x1p-40 {
			t.Errorf("variance %v: honest inputs are beyond their bounds with a chance of %g", v, all)
		}
		p.Releases = append(p.Releases, p.Releases[0])
		if a, b := p.InputBound(p.Releases[0], rounds); !(a > linf && b > l2) {
			t.Errorf("bounds of each of two releases are %v and %v, of one %v and %v", a, b, linf, l2)
		}
	}
	p := reachPlan(200_000, 1e7, 0, 1) // in many coordinates the norm is close to its expectation
	if _, got := p.InputBound(p.Releases[0], rounds); got-20.5 < math.Sqrt(2e11) || got-20.5 > 1.1*math.Sqrt(2e11) {
		t.Errorf("the norm of a share reaches %g, expected is %g", got, math.Sqrt(2e11))
	}
	p.Releases[0].Noise = protocol.Noise{} // D2 bounds both, and nothing is added
	if linf, l2 := p.InputBound(p.Releases[0], rounds); linf != 20 || math.Abs(l2-20.5) > 1e-6 {
		t.Errorf("without noise the bounds are %v and %v", linf, l2)
	}
}

// By hand: the integers of four clients move by less than 4 each, at scale 10 x - 2y by less than 4·(1 + 2)/10 = 1.2.
func TestBrokenLimitIsNamed(t *testing.T) {
	for x, want := range map[float64]string{4: "", 5.1: "", 5.4: `release "x": coordinate 0`, math.NaN(): `release "x"`} {
		err := pairPlan(0, 10, 1).Broken(twice(1), protocol.Sums{Survivors: 4, Values: [][]float64{{x}, {2}}}, 4)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("x = %v: %v, want %q", x, err, want)
		}
	}
}

// Noise breaks limits with probability at most 2^-40 over all rounds, by the exact law of X - 2Y. The slack is within
// twice the slack that the Gaussian of the same variance would need, and a slack for a chance of 1% is passed about so
// often.
func TestNoiseKeepsLimits(t *testing.T) {
	const m, limits = 200, 3
	for _, v := range []float64{0.5, 4, 40} {
		law := skellam(v, m)
		tail := func(above float64) (chance float64) {
			for x := -m; x <= m; x++ {
				for y := -m; y <= m; y++ {
					if float64(x-2*y) > above {
						chance += law[x+m] * law[y+m]
					}
				}
			}
			return chance
		}
		all := 0.
		for round := uint64(1); round <= 12; round++ {
			p, low, high := pairPlan(v, 1, round), 0., 1e4 // the threshold, found by asking
			for range 40 {
				middle := (low + high) / 2
				if p.Broken(twice(limits), protocol.Sums{Survivors: 4, Values: [][]float64{{middle}, {0}}}, 4) == nil {
					low = middle
				} else {
					high = middle
				}
			}
			slack := low - 4*3 // without the rounding of four clients
			all += limits * tail(slack)
			if z := 8.5 * math.Sqrt(5*v); v == 40 && slack > 2*z {
				t.Errorf("variance %v, round %d: slack %v, %v deviations", v, round, slack, slack/math.Sqrt(5*v))
			}
		}
		if all > 0x1p-40 || v == 4 && all == 0 {
			t.Errorf("variance %v: honest sums break limits with a chance of %g", v, all)
		}
		terms := []protocol.Term{{Factor: 1}, {Release: 1, Factor: -2}}
		if got := tail(pairPlan(v, 1, 1).Slack(math.Log(100), 4, 4, terms...) - 4*3); got > 0.01 || v == 40 && got < 1e-4 {
			t.Errorf("variance %v: a slack for 1%% is passed with a chance of %g", v, got)
		}
	}
}

// Parties that noise their own vectors may break any limit.
func TestPartyNoiseHasNoLimits(t *testing.T) {
	p := pairPlan(0, 1, 1)
	p.Releases[1].Noise = protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 1, Steps: 1}
	if err := p.Broken(twice(1), protocol.Sums{Survivors: 4, Values: [][]float64{{1e9}, {0}}}, 4); err != nil {
		t.Error(err)
	}
}
