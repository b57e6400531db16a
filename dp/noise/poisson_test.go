package noise

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func mustPoisson(t *testing.T, mean float64) *Poisson {
	t.Helper()
	p, err := NewPoisson(mean)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPoissonLaw: chi-square against gonum's probabilities.
func TestPoissonLaw(t *testing.T) {
	for i, mean := range []float64{0.3, 1, 7.5, 300, 1e4} {
		p, b := mustPoisson(t, mean), stream(byte(i))
		checkLaw(t, fmt.Sprintf("Poisson(%g)", mean), 200_000,
			func() uint64 { return p.Draw(b) }, distuv.Poisson{Lambda: mean}.Prob)
	}
}

// TestPoissonLargeMean: Kolmogorov-Smirnov against gonum's sampler.
func TestPoissonLargeMean(t *testing.T) {
	p, b := mustPoisson(t, 1e6), stream(10)
	got := sample(50_000, func() float64 { return float64(p.Draw(b)) })
	want := sample(50_000, distuv.Poisson{Lambda: 1e6, Src: rand.NewPCG(1, 2)}.Rand)
	checkSameLaw(t, "Poisson(1e6)", got, want)
}

// TestPoissonParts: above the largest table a draw is a sum of draws. Mean and variance equal the
// mean and variance of the whole. At this mean the law is normal far below the resolution of the
// sample.
func TestPoissonParts(t *testing.T) {
	const mean, n = 3 * maxTableMean, 10_000
	p, b := mustPoisson(t, mean), stream(11)
	if p.parts != 4 || p.mean != mean {
		t.Errorf("mean %v in %d parts, want %v in 4 (the least power of two)", p.mean, p.parts, float64(mean))
	}
	x := sample(n, func() float64 { return float64(p.Draw(b)) - mean })
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	if s := sum / math.Sqrt(mean*n); math.Abs(s) > normalLimit {
		t.Errorf("sample mean is off by %.1f standard errors", s)
	}
	// The fourth moment 3v^2 + v is also a Poisson's.
	if s := varianceScore(x, mean); math.Abs(s) > normalLimit {
		t.Errorf("sample variance is off by %.1f standard errors", s)
	}
}

func TestPoissonErrors(t *testing.T) {
	for _, c := range []struct {
		mean     float64
		tooLarge bool
		want     string
	}{
		{0, false, "noise: Poisson: mean is 0, must be positive and finite"},
		{-1, false, "noise: Poisson: mean is -1, must be positive and finite"},
		{math.NaN(), false, "noise: Poisson: mean is NaN, must be positive and finite"},
		{math.Inf(1), false, "noise: Poisson: mean is +Inf, must be positive and finite"},
		{math.Inf(-1), false, "noise: Poisson: mean is -Inf, must be positive and finite"},
		{1e11, true, "noise: Poisson: mean is 1e+11, must be at most 6.8719476736e+10: too large for a table of the promised precision"},
	} {
		p, err := NewPoisson(c.mean)
		if p != nil || err == nil || err.Error() != c.want || errors.Is(err, ErrTooLarge) != c.tooLarge {
			t.Errorf("NewPoisson(%v) = %v, %v; want error %q", c.mean, p, err, c.want)
		}
	}
}

// TestPoissonSmallest: the smallest positive mean is valid, and practically 0.
func TestPoissonSmallest(t *testing.T) {
	p, b := mustPoisson(t, math.SmallestNonzeroFloat64), stream(12)
	for range 100 {
		if k := p.Draw(b); k != 0 {
			t.Fatalf("draw of mean 5e-324 is %d", k)
		}
	}
}
