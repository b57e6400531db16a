package client

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// In fractions: base and surplus are V/w together, and what stays of both is V/u, for every number of
// survivors. If no client is lost nothing of the surplus stays, and no ratio exceeds what a thinning
// takes.
func TestPartsOfAShare(t *testing.T) {
	const v = 1 << 40
	for _, c := range []protocol.Cohort{
		{Clients: 1}, {Clients: 10, Tolerance: 0.3}, {Clients: 20, Tolerance: 0.6, Colluders: 0.1}, {Clients: 500, Tolerance: 0.3, Colluders: 0.05},
		{Clients: 600, Enrolled: 5000, Goal: 500, Tolerance: 0.3, Colluders: 0.05}, {Clients: 60_000, Tolerance: 0.3, Colluders: 0.05}, {Clients: 1_000_000, Tolerance: 0.3, Colluders: 0.05},
	} {
		base, surplus := parts(c, v)
		if a := c.ShareVariance(v); math.Abs(base+surplus-a) > a*0x1p-52 {
			t.Errorf("%+v: %v and %v are not %v", c, base, surplus, a)
		}
		n, w := int64(c.Honest(c.Clients)), int64(c.Honest(c.Required()))
		for _, survivors := range []int{c.Required(), (c.Required() + c.Clients) / 2, c.Clients} {
			keep, of := keeps(c, base, survivors)
			if surplus == 0 {
				continue
			}
			u := int64(c.Honest(survivors))
			kept := new(big.Rat)
			if base > 0 {
				kept.SetFrac64(1, n)
			}
			part := new(big.Rat).Sub(big.NewRat(1, w), kept) // the surplus, of V
			kept.Add(kept, part.Mul(part, new(big.Rat).SetFrac(new(big.Int).SetUint64(keep), new(big.Int).SetUint64(of))))
			if kept.Cmp(big.NewRat(1, u)) != 0 || keep > of || of > noise.MaxRatio || base > 0 && (keep == 0) != (survivors == c.Clients) {
				t.Errorf("%+v, %d survive: %v of V stays with %d of %d, want 1/%d", c, survivors, kept, keep, of, u)
			}
		}
	}
}

// If the bits of noise thinned it as well, a party that knew the noise would know what stays: no statistic of a round shows that. Of one
// noise, other bits of the thinning take other parts away.
func TestThinningHasBitsOfItsOwn(t *testing.T) {
	c := protocol.Cohort{Clients: 20, Tolerance: 0.6}
	p := &protocol.Plan{Round: 1, Cohort: c, Releases: []protocol.Release{{Name: "g", Len: 100, L2: 1, MaxNonZero: 1, Scale: 1, Width: 32, Noise: protocol.Noise{Kind: protocol.Split, Variance: 60}}}}
	var s Samplers
	_, sh, err := s.draw(p, simulated.New(3, "client"), []protocol.Integers{{Index: []uint32{}}})
	if err != nil {
		t.Fatal(err)
	}
	other := *sh
	if other.thinning, err = entropy.NewSeed(simulated.New(4, "client"), "thinning-seed", 1); err != nil {
		t.Fatal(err)
	}
	one, err := s.remove(p, sh, 14)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.remove(p, &other, 14)
	if err != nil || slices.Equal(one[0].Value, two[0].Value) {
		t.Errorf("the same part is taken away by other bits (%v)", err)
	}
}

// The kept and the removed noise are Skellam of variances V/u and V/w - V/u, by a chi-square test
// against the difference of two Poissons in plain sums, and are uncorrelated. Each test fails for
// right noise with probability 1e-6.
func TestKeptAndRemovedNoise(t *testing.T) {
	const n, v = 100_000, 60.0
	c := protocol.Cohort{Clients: 20, Tolerance: 0.6, Colluders: 0.1} // w = 6, and 18 honest ones at most
	p := &protocol.Plan{Round: 1, Cohort: c, Releases: []protocol.Release{{Name: "g", Len: n, L2: 1, MaxNonZero: 1, Scale: 1, Width: 32, Noise: protocol.Noise{Kind: protocol.Split, Variance: v}}}}
	for _, survivors := range []int{20, 14, 8} {
		var s Samplers
		added, sh, err := s.draw(p, simulated.New(3, "client"), []protocol.Integers{{Index: []uint32{}}})
		if err != nil {
			t.Fatal(err)
		}
		change, err := s.remove(p, sh, survivors)
		if err != nil {
			t.Fatal(err)
		}
		u := float64(survivors - 2)
		kept, removed := make([]float64, n), make([]float64, n)
		for i := range n {
			kept[i], removed[i] = float64(added[0].Value[i]+change[0].Value[i]), float64(-change[0].Value[i])
		}
		checkSkellam(t, "kept", kept, v/u)
		if rest := v/6 - v/u; rest > 0 {
			checkSkellam(t, "removed", removed, rest)
			if r := stat.Correlation(kept, removed, nil) * math.Sqrt(n); math.Abs(r) > 4.9 {
				t.Errorf("%d survive: kept and removed noise are correlated by %.1f deviations", survivors, r)
			}
		}
	}
}

func checkSkellam(t *testing.T, what string, x []float64, variance float64) {
	t.Helper()
	half, reach := distuv.Poisson{Lambda: variance / 2}, int(12*math.Sqrt(variance)+20)
	counts := map[int]float64{}
	for _, v := range x {
		counts[int(v)]++
	}
	var chi, rest, restCount float64
	cells := 0
	for k := -reach; k <= reach; k++ {
		var prob float64
		for q := max(0, -k); q <= reach; q++ {
			prob += half.Prob(float64(q)) * half.Prob(float64(q+k))
		}
		if expected := prob * float64(len(x)); expected >= 20 {
			chi += (counts[k] - expected) * (counts[k] - expected) / expected
			cells++
		} else {
			rest, restCount = rest+expected, restCount+counts[k]
		}
	}
	if rest >= 5 {
		chi += (restCount - rest) * (restCount - rest) / rest
		cells++
	}
	if p := 1 - (distuv.ChiSquared{K: float64(cells - 1)}).CDF(chi); p < 1e-6 {
		t.Errorf("%s noise of variance %v: chi-square %.1f of %d cells, p = %.1g", what, variance, chi, cells, p)
	}
}
