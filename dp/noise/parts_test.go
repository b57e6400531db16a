package noise

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Parts of a Poisson stay within the error that the package promises, for a Skellam 2^-101 of
// 2^-100. All weights of all tables add 0.75 units of 2^-128 each, and each table 2^-119 more
// (newTable says from where). The parts are a power of two, so that they add up to the mean
// exactly, and many draws have the fewest.
func TestPartsKeepThePromise(t *testing.T) {
	for exponent := -20; exponent <= 36; exponent++ {
		mean := math.Ldexp(1, exponent)
		for _, draws := range []int{1, 6, 1000, 1 << 20, 1 << 30} {
			parts := partsFor(mean, draws)
			table := poissonTable(min(mean/float64(parts), 1e4)) // larger tables have a computed size
			weights := max(float64(len(table.hi)), 28*math.Sqrt(mean/float64(parts)))
			if err := float64(parts) * (0.75*weights*0x1p-128 + 0x1p-119); err > 0x1p-101 {
				t.Errorf("2^%d in %d parts: off by 2^%.1f", exponent, parts, math.Log2(err))
			}
			if parts&(parts-1) != 0 || draws == 1<<30 && parts != fewestParts(mean) {
				t.Errorf("2^%d for %d draws: %d parts", exponent, draws, parts)
			}
		}
	}
}

// A sampler for few draws has the law of a sampler for many. The test compares the sums of squares,
// whose ratio to the variance has a standard deviation of √(2/n). Five standard deviations are
// passed once in a million, and the seed is fixed.
func TestSkellamForFewDraws(t *testing.T) {
	const variance, n = 1e5, 10_000
	var tables Tables
	s, err := tables.SkellamFor(variance, 3)
	if err != nil {
		t.Fatal(err)
	}
	if s.half.parts < 64 {
		t.Errorf("%d parts for three draws", s.half.parts)
	}
	dst := make([]int64, n)
	if err = s.Add(dst, NewBits(rand.NewChaCha8([32]byte{1}))); err != nil {
		t.Fatal(err)
	}
	var sum, squares float64
	for _, x := range dst {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if math.Abs(sum) > 5*math.Sqrt(variance*n) || math.Abs(squares/n/variance-1) > 5*math.Sqrt(2./n) {
		t.Errorf("mean %g and variance %g, want 0 and %g", sum/n, squares/n, variance)
	}
	if _, err = tables.SkellamFor(math.Inf(1), 1); err == nil {
		t.Error("an infinite variance is taken")
	}
}
