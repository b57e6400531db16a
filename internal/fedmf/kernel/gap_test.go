package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestQuickGap compares the sure results of quickGap with gapOf, which uses math.Log1p. Bits are
// drawn at random, and taken at and around each change of the gap. quickGap must be sure of nearly
// all drawn bits.
func TestQuickGap(t *testing.T) {
	const draws = 200_000
	rng := rand.New(rand.NewPCG(1, 1))
	for _, q := range []float64{0.9, 0.5, 0.1, 0.013, 1e-3, 1e-5, 1e-9} {
		perLog := 1 / math.Log1p(-q)
		check := func(x uint64) (sure bool) {
			gap, sure := quickGap(x, perLog)
			if want := gapOf(x, perLog); sure && gap != want {
				t.Fatalf("q = %v, bits %#x: the gap is %v, want %v", q, x, gap, want)
			}
			return sure
		}
		unsure := 0
		for range draws {
			if !check(rng.Uint64()) {
				unsure++
			}
		}
		// 2^-12 of all are beyond mostQuick: 49 of 200,000, and more than 100 with a chance below 1e-9. With q = 1e-9 a gap is told
		// from the next up to an error of a thousandth: 400 more.
		if unsure > 100 && q > 1e-9 || unsure > 700 {
			t.Errorf("q = %v: not sure of %d of %d", q, unsure, draws)
		}
		for range draws / 40 {
			// The least u of a gap of g is 1-(1-q)^g.
			g := math.Floor(rng.ExpFloat64() * -perLog)
			edge := uint64(min(-math.Expm1(g/perLog)*0x1p64, math.MaxUint64-1<<11))
			for shift := range 60 {
				check(edge + 1<<shift)
				check(edge - 1<<shift)
			}
			check(edge)
		}
		for _, x := range []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, mostQuick, mostQuick + 1, 1 << 63, 1<<63 - 1} {
			check(x)
		}
	}
}

// BenchmarkGap draws a gap between ratings of a sample; plain uses math.Log1p alone.
func BenchmarkGap(b *testing.B) {
	perLog := 1 / math.Log1p(-0.01)
	rng := rand.New(rand.NewPCG(1, 1))
	var sum float64
	b.Run("quick", func(b *testing.B) {
		for b.Loop() {
			x := rng.Uint64()
			gap, sure := quickGap(x, perLog)
			if !sure {
				gap = gapOf(x, perLog)
			}
			sum += gap
		}
	})
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			sum += gapOf(rng.Uint64(), perLog)
		}
	})
	if sum == 0 {
		b.Fatal("no gaps")
	}
}
