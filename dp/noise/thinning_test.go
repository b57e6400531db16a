package noise

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/effort"
)

func mustThinning(t *testing.T, mean float64, num, den uint64) *Thinning {
	t.Helper()
	th, err := NewThinning(mean, num, den)
	if err != nil {
		t.Fatal(err)
	}
	return th
}

// usesPowers reports whether any draw of t took the path for unexpected counts.
func usesPowers(t *Thinning) bool {
	for i := range t.powers {
		if t.powers[i].table != nil {
			return true
		}
	}
	return false
}

// TestThinningLaw: chi-square against gonum's binomial probabilities, for counts at the mean, at
// both ends of the range with tables, and just beyond and far beyond the ends.
func TestThinningLaw(t *testing.T) {
	effort.NotShort(t, "hundreds of thousands of draws")
	for _, c := range []struct {
		mean   float64
		counts []uint64
		far    []uint64
	}{
		{1, []uint64{1, 2, 13, 25}, []uint64{26, 1000}},
		{300, []uint64{146, 300, 454}, []uint64{5, 100, 10_000}},
		{1e4, []uint64{9185, 10_000, 10_815}, []uint64{1, 9000, 11_500, 100_000}},
		{1e6, []uint64{991_985, 1_000_000, 1_008_015}, []uint64{900_000, 1_100_000}},
	} {
		for i, keep := range [][2]uint64{{70, 90}, {1, 50}} {
			th, b := mustThinning(t, c.mean, keep[0], keep[1]), stream(byte(i))
			check := func(n uint64) {
				p := float64(keep[0]) / float64(keep[1])
				checkLaw(t, fmt.Sprintf("mean %g, Binomial(%d, %d/%d)", c.mean, n, keep[0], keep[1]), 30_000,
					func() uint64 { return th.Draw(n, b) }, distuv.Binomial{N: float64(n), P: p}.Prob)
			}
			for _, n := range c.counts {
				check(n)
			}
			if usesPowers(th) {
				t.Errorf("mean %g: a count within eight standard deviations has no tables", c.mean)
			}
			for _, n := range c.far {
				check(n)
			}
			if !usesPowers(th) {
				t.Errorf("mean %g: no count was beyond the tables; the test does not test them", c.mean)
			}
		}
	}
}

// TestThinningEveryCount draws for every count with tables and beyond, standardises by the
// binomial's mean and variance, and checks mean and variance over all: one missing or misplaced
// table shows.
func TestThinningEveryCount(t *testing.T) {
	for _, mean := range []float64{2.5, 300, 1e4, 1e5} {
		const r = 5. / 8
		th, b := mustThinning(t, mean, 5, 8), stream(3)
		reach := 9*math.Sqrt(mean) + 20
		var n, sum, squares float64
		for count := uint64(max(1, mean-reach)); count < uint64(mean+reach); count++ {
			c := float64(count)
			repeat := int(1 + 20_000/reach)
			for range repeat {
				z := (float64(th.Draw(count, b)) - c*r) / math.Sqrt(c*r*(1-r))
				n++
				sum += z
				squares += z * z
			}
		}
		if s := sum / math.Sqrt(n); math.Abs(s) > normalLimit {
			t.Errorf("mean %g: kept counts are off by %.1f standard errors", mean, s)
		}
		// Fourth standardised moment of a binomial: 3 + (1-6r(1-r))/(n r(1-r)), below 3 here.
		if s := (squares - n) / math.Sqrt(2*n); math.Abs(s) > normalLimit {
			t.Errorf("mean %g: variance of kept counts is off by %.1f standard errors", mean, s)
		}
	}
}

// TestThinningHugeCount: counts beyond 2^32 are split exactly too: mean and
// variance of 2^35 + 12345 points.
func TestThinningHugeCount(t *testing.T) {
	const n, r, draws = 1<<35 + 12345, 0.5, 5000
	th, b := mustThinning(t, 10, 1, 2), stream(4)
	var sum, squares float64
	for range draws {
		z := (float64(th.Draw(n, b)) - n*r) / math.Sqrt(n*r*(1-r))
		sum += z
		squares += z * z
	}
	if s := sum / math.Sqrt(draws); math.Abs(s) > normalLimit {
		t.Errorf("kept counts are off by %.1f standard errors", s)
	}
	if s := (squares - draws) / math.Sqrt(2*draws); math.Abs(s) > normalLimit {
		t.Errorf("variance of kept counts is off by %.1f standard errors", s)
	}
}

// TestThinningKeepsAtMostAll is a property: for any parameters, counts and bits, extreme ones
// included, 0 <= kept <= n; kept is n if the probability is 1.
func TestThinningKeepsAtMostAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		den := rapid.Uint64Range(1, 1<<20).Draw(t, "den")
		num := rapid.Uint64Range(1, den).Draw(t, "num")
		mean := rapid.Float64Range(1e-3, 3000).Draw(t, "mean")
		th, err := NewThinning(mean, num, den)
		if err != nil {
			t.Fatal(err)
		}
		words := rapid.SliceOfN(rapid.Byte(), 8, 64).Draw(t, "bits")
		b := NewBits(bytes.NewReader(bytes.Repeat(words, 500)))
		for range 10 {
			n := rapid.OneOf(rapid.Uint64Range(0, 20), rapid.Uint64Range(0, uint64(2*mean)), rapid.Uint64Range(0, 1<<16)).Draw(t, "n")
			kept := th.Draw(n, b)
			if kept > n || num == den && kept != n {
				t.Fatalf("%d of %d are kept with probability %d/%d", kept, n, num, den)
			}
		}
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
	})
}

// TestThinningConcurrent: goroutines that share a thinning draw what each would
// draw alone, also while tables are made on first use.
func TestThinningConcurrent(t *testing.T) {
	draws := func(th *Thinning, seed byte) (kept [200]uint64) {
		b := stream(seed)
		for i := range kept {
			kept[i] = th.Draw(uint64(i*i), b)
		}
		return kept
	}
	shared := mustThinning(t, 300, 2, 3)
	var got [4][200]uint64
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = draws(shared, byte(i)) })
	}
	wg.Wait()
	for i := range got {
		if want := draws(mustThinning(t, 300, 2, 3), byte(i)); got[i] != want {
			t.Errorf("goroutine %d drew other numbers than it does alone", i)
		}
	}
}

func TestThinningParameters(t *testing.T) {
	th := mustThinning(t, 1e3, 3<<40, 6<<40)
	if num, den := th.num, th.den; num != 1 || den != 2 || th.mean != 1e3 {
		t.Errorf("keep probability %d/%d, mean %v; want 1/2 (in lowest terms), 1000", num, den, th.mean)
	}
	for _, c := range []struct {
		mean     float64
		num, den uint64
		tooLarge bool
		want     []string
	}{
		{1, 0, 5, false, []string{"keep probability is 0/5, must be above 0 and at most 1"}},
		{1, 0, 0, false, []string{"keep probability is 0/0"}},
		{1, 6, 5, false, []string{"keep probability is 6/5"}},
		{0, 1, 2, false, []string{"mean is 0, must be positive and finite"}},
		{math.NaN(), 7, 5, false, []string{"mean is NaN", "keep probability is 7/5"}},
		{1 << 31, 1, 2, true, []string{"mean is 2.147483648e+09, must be at most 1.073741824e+09"}},
		{math.Inf(1), 2, 2 << 32, true, []string{"mean is +Inf", "keep probability is 1/4294967296 in lowest terms, its denominator must be at most 4294967295"}},
	} {
		th, err := NewThinning(c.mean, c.num, c.den)
		if th != nil || err == nil || errors.Is(err, ErrTooLarge) != c.tooLarge {
			t.Errorf("NewThinning(%v, %d, %d) = %v, %v; want an error, too large: %v", c.mean, c.num, c.den, th, err, c.tooLarge)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("NewThinning(%v, %d, %d): error %q does not say %q", c.mean, c.num, c.den, err, want)
			}
		}
	}
}
