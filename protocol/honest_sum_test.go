package protocol_test

import (
	"math"
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
