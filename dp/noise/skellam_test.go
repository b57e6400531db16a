package noise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/internal/effort"
)

func mustSkellam(t *testing.T, variance float64) *Skellam {
	t.Helper()
	s, err := NewSkellam(variance)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func floats(x []int64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// fresh returns n coordinates of noise, as Add makes it.
func fresh(t *testing.T, s *Skellam, n int, b *Bits) []int64 {
	t.Helper()
	x := make([]int64, n)
	if err := s.Add(x, b); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSkellamLaw: chi-square against the convolution of gonum's Poisson
// probabilities, over values shifted by 40 standard deviations to be counts.
func TestSkellamLaw(t *testing.T) {
	for i, variance := range []float64{0.5, 9, 100} {
		s, b := mustSkellam(t, variance), stream(byte(i))
		p := distuv.Poisson{Lambda: variance / 2}
		shift := int64(40 * math.Ceil(math.Sqrt(variance)))
		prob := func(x float64) float64 {
			d, sum := x-float64(shift), 0.0
			for q := max(0, -d); q < variance/2+float64(shift); q++ {
				sum += p.Prob(q) * p.Prob(q+d)
			}
			return sum
		}
		checkLaw(t, fmt.Sprintf("Skellam(%g)", variance), 100_000, func() uint64 {
			return uint64(fresh(t, s, 1, b)[0] + shift)
		}, prob)
	}
}

// TestSkellamVariance: against the variance asked for, with the standard error
// of the fourth moment 3v^2 + v.
func TestSkellamVariance(t *testing.T) {
	for i, variance := range []float64{0.1, 2, 601.5, 2e4, 2e6, 2e7} {
		s := mustSkellam(t, variance)
		if s.Variance() != variance {
			t.Errorf("Variance() = %v, want %v", s.Variance(), variance)
		}
		x := floats(fresh(t, s, 100_000, stream(byte(20+i))))
		if z := varianceScore(x, variance); math.Abs(z) > normalLimit {
			t.Errorf("Skellam(%g): sample variance is off by %.1f standard errors", variance, z)
		}
	}
}

// TestAddAdds: the draws do not depend on the vector they are added to.
func TestAddAdds(t *testing.T) {
	s := mustSkellam(t, 50)
	noise := fresh(t, s, 100, stream(1))
	sum := make([]int64, 100)
	for i := range sum {
		sum[i] = int64(i*i) - 700
	}
	if err := s.Add(sum, stream(1)); err != nil {
		t.Fatal(err)
	}
	for i := range sum {
		if got, want := sum[i], int64(i*i)-700+noise[i]; got != want {
			t.Errorf("coordinate %d: %d, want %d", i, got, want)
		}
	}
	if slices.Max(noise) <= 0 || slices.Min(noise) >= 0 {
		t.Errorf("noise of variance 50 has one sign: %v", noise)
	}
}

// split returns kept and removed noise of n coordinates.
func split(t *testing.T, variance float64, num, den uint64, n int) (kept, removed []float64) {
	t.Helper()
	s, th := mustSkellam(t, variance), mustThinning(t, variance/2, num, den)
	noise, removal := fresh(t, s, n, stream(31)), make([]int64, n)
	if err := s.Removal(removal, stream(31), stream(32), th); err != nil {
		t.Fatal(err)
	}
	for i := range noise {
		kept = append(kept, float64(noise[i]+removal[i]))
		removed = append(removed, -float64(removal[i]))
	}
	return kept, removed
}

// splitFaults lists how the parts fail to be independent of variances b and a-b.
func splitFaults(kept, removed []float64, a, b float64) []string {
	var faults []string
	for _, part := range []struct {
		name string
		x    []float64
		want float64
	}{{"kept variance", kept, b}, {"removed variance", removed, a - b}} {
		if z := varianceScore(part.x, part.want); math.Abs(z) > normalLimit {
			faults = append(faults, part.name)
		}
	}
	if z := correlationScore(kept, removed); math.Abs(z) > normalLimit {
		faults = append(faults, "correlation")
	}
	if independenceP(kept, removed) < alpha {
		faults = append(faults, "dependence")
	}
	return faults
}

// TestSplit: kept and removed noise are independent Skellams of variance b and
// a-b (protocol: two-round noise), and the kept noise has the distribution of
// fresh noise of variance b.
func TestSplit(t *testing.T) {
	effort.NotShort(t, "hundreds of thousands of draws")
	const n = 40_000
	for _, c := range []struct {
		a        float64
		num, den uint64
	}{{2, 70, 90}, {600, 70, 90}, {2e4, 1, 10}, {2e6, 70, 90}, {2e7, 2, 3}} {
		b := c.a * float64(c.num) / float64(c.den)
		kept, removed := split(t, c.a, c.num, c.den, n)
		name := fmt.Sprintf("a = %g, b/a = %d/%d", c.a, c.num, c.den)
		for _, fault := range splitFaults(kept, removed, c.a, b) {
			t.Errorf("%s: wrong %s", name, fault)
		}
		checkSameLaw(t, name+", kept", kept, floats(fresh(t, mustSkellam(t, b), n, stream(33))))
		checkSameLaw(t, name+", removed", removed, floats(fresh(t, mustSkellam(t, c.a-b), n, stream(34))))
	}
}

// TestSplitWrongWay thins |P - Q| instead of P and Q, with gonum's samplers: every
// check of TestSplit must see it.
func TestSplitWrongWay(t *testing.T) {
	const n, a, r = 40_000, 600, 70. / 90
	src := rand.NewPCG(1, 2)
	p := distuv.Poisson{Lambda: a / 2, Src: src}
	var kept, removed []float64
	for range n {
		xi := p.Rand() - p.Rand()
		k := math.Copysign(distuv.Binomial{N: math.Abs(xi), P: r, Src: src}.Rand(), xi)
		kept = append(kept, k)
		removed = append(removed, xi-k)
	}
	want := []string{"kept variance", "removed variance", "correlation", "dependence"}
	if got := splitFaults(kept, removed, a, a*r); !slices.Equal(got, want) {
		t.Errorf("thinning |P - Q| shows %q, want %q", got, want)
	}
	if d, limit := ksDistance(kept, floats(fresh(t, mustSkellam(t, a*r), n, stream(35)))); d <= limit {
		t.Errorf("thinning |P - Q| leaves the distribution of fresh noise, distance %.4f", d)
	}
}

// TestRemovalReplay: the same streams give the same removal; vectors may follow
// each other on one stream; and other thinning bits give another removal.
func TestRemovalReplay(t *testing.T) {
	s, th := mustSkellam(t, 600), mustThinning(t, 300, 2, 3)
	removal := func(thinSeed byte, sizes ...int) []int64 {
		noise, thin := stream(1), stream(thinSeed)
		var all []int64
		for _, n := range sizes {
			dst := slices.Repeat([]int64{12345}, n) // old content is overwritten
			if err := s.Removal(dst, noise, thin, th); err != nil {
				t.Fatal(err)
			}
			all = append(all, dst...)
		}
		return all
	}
	want := removal(2, 1000)
	if got := removal(2, 1000); !slices.Equal(got, want) {
		t.Error("the same streams give another removal")
	}
	if got := removal(2, 300, 0, 700); !slices.Equal(got, want) {
		t.Error("two vectors on one stream give another removal than one")
	}
	if got := removal(3, 1000); slices.Equal(got, want) {
		t.Error("another thinning stream gives the same removal")
	}
}

// TestRemovalRegenerates: with a keep probability of 1/MaxRatio practically everything is removed,
// so the removal is the noise itself, negated. With probability 1 nothing is removed, and the noise
// stream still moves forward.
func TestRemovalRegenerates(t *testing.T) {
	s := mustSkellam(t, 4)
	noise := fresh(t, s, 2000, stream(1))
	none, all := mustThinning(t, 2, 1, MaxRatio), mustThinning(t, 2, 1, 1)
	got, replay, thin := make([]int64, 1000), stream(1), stream(2)
	if err := s.Removal(got, replay, thin, all); err != nil {
		t.Fatal(err)
	}
	if slices.Max(got) != 0 || slices.Min(got) != 0 {
		t.Error("keeping everything removes something")
	}
	if err := s.Removal(got, replay, thin, none); err != nil {
		t.Fatal(err)
	}
	// 4000 points, each kept with probability 2^-32: false alarm below alpha.
	for i, v := range got {
		if v != -noise[1000+i] {
			t.Fatalf("coordinate %d: removal %d of noise %d", 1000+i, v, noise[1000+i])
		}
	}
}

// TestStreamErrors: a failing stream is reported, and leaves zeros rather than
// data with too little noise.
func TestStreamErrors(t *testing.T) {
	s, th := mustSkellam(t, 600), mustThinning(t, 300, 2, 3)
	short := func() *Bits { return NewBits(bytes.NewReader(bytes.Repeat([]byte{7, 99}, 400))) }
	broken := errors.New("broken")
	both := stream(1)
	for _, c := range []struct {
		name string
		run  func(dst []int64) error
		want error
	}{
		{"Add, short", func(dst []int64) error { return s.Add(dst, short()) }, io.ErrUnexpectedEOF},
		{"Add, broken", func(dst []int64) error { return s.Add(dst, NewBits(iotest.ErrReader(broken))) }, broken},
		{"Removal, noise short", func(dst []int64) error { return s.Removal(dst, short(), stream(1), th) }, io.ErrUnexpectedEOF},
		{"Removal, thin short", func(dst []int64) error { return s.Removal(dst, stream(1), short(), th) }, io.ErrUnexpectedEOF},
		{"Removal, thin broken", func(dst []int64) error {
			return s.Removal(dst, short(), NewBits(iotest.ErrReader(broken)), th)
		}, broken},
		{"Removal, one stream for both", func(dst []int64) error { return s.Removal(dst, both, both, th) }, ErrSharedStream},
	} {
		dst := slices.Repeat([]int64{1 << 40}, 1000)
		if err := c.run(dst); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if slices.Max(dst) != 0 || slices.Min(dst) != 0 {
			t.Errorf("%s: the vector is not cleared", c.name)
		}
	}
}

func TestSkellamErrors(t *testing.T) {
	for _, c := range []struct {
		variance float64
		tooLarge bool
		want     string
	}{
		{0, false, "noise: Skellam: variance is 0, must be positive and finite"},
		{-2, false, "noise: Skellam: variance is -2, must be positive and finite"},
		{math.NaN(), false, "noise: Skellam: variance is NaN, must be positive and finite"},
		{math.Inf(1), false, "noise: Skellam: variance is +Inf, must be positive and finite"},
		{math.SmallestNonzeroFloat64, false, "noise: Skellam of variance 5e-324: noise: Poisson: mean is 0, must be positive and finite"},
		{1e12, true, "noise: Skellam: variance is 1e+12, must be at most 1.37438953472e+11: too large for a table of the promised precision"},
	} {
		s, err := NewSkellam(c.variance)
		if s != nil || err == nil || err.Error() != c.want || errors.Is(err, ErrTooLarge) != c.tooLarge {
			t.Errorf("NewSkellam(%v) = %v, %v; want error %q", c.variance, s, err, c.want)
		}
	}
}
