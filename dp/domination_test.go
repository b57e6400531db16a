package dp

import (
	"fmt"
	"math"
	"testing"
)

// These tests check the steps of the proof in dp/proofs.md that Skellam noise is
// dominated by normal noise. Each check uses numbers that do not come from the proof.

// Step 1: with p the probabilities of variance V, 1 - p(k-1)·p(k+1)/p(k)² is at most
// 1/√(V² + k² - 1/4) for k >= 1, and at most 1/V + 1/(8V²) for k = 0. Tables come from a recurrence.
func TestSkellamIsNowhereMoreLogConcave(t *testing.T) {
	for _, v := range []float64{4, 5, 16, 17.3, 50, 1e3, 1e5} {
		t.Run(fmt.Sprintf("V=%g", v), func(t *testing.T) {
			n := int(20*math.Sqrt(v)) + 20
			table := newSkellamTable(v, n)
			for k := range n {
				curve := table.loss(k, 1) - table.loss(k-1, 1) // log p(k)²/(p(k-1)·p(k+1))
				got, bound := -math.Expm1(-curve), 1/v+1/(8*v*v)
				if k > 0 {
					bound = 1 / math.Sqrt(v*v+float64(k*k)-0.25)
				}
				// The two agree to the fourth order of 1/V; a double has that many digits up to V = 50.
				if rounding := 1e-15; !(got <= bound+rounding) {
					t.Fatalf("k = %d: %.17g is above %.17g", k, got, bound)
				}
				if got < 0.9*bound {
					t.Fatalf("k = %d: %v is far below %v: one of them is wrong", k, got, bound)
				}
			}
		})
	}
}

// Step 1 takes one number from a table: I_1(4)/I_0(4), of Abramowitz and Stegun, table 9.8
// (11.30192195 and 9.75946515). At x = 4 it starts the comparison for k = 0.
func TestStartOfTheComparison(t *testing.T) {
	ratio := 9.75946515 / 11.30192195
	table := newSkellamTable(4, 100)
	if got := table.p[1] / table.p[0]; math.Abs(got-ratio) > 1e-9 {
		t.Errorf("p(1)/p(0) is %v, want %v", got, ratio)
	}
	if got, least := 16*ratio*ratio, 16-4-0.125; !(got > least) {
		t.Errorf("φ² is %v at 4, want more than %v", got, least)
	}
}

// Step 2: three neighbouring intervals of length M have normal masses a, b, c with
// log b²/(a·c) >= M²(1 - M²/4) where M² <= 2, and >= 0.875 beyond. Masses come from math.Erfc.
func TestNormalMassesOfIntervals(t *testing.T) {
	for _, m := range []float64{0.05, 0.3, 0.7, 1, 1.3, math.Sqrt2, 1.5, 2, 3, 5} {
		bound := 0.875
		if m*m <= 2 {
			bound = m * m * (1 - m*m/4)
		}
		for middle := 0.0; middle <= 8; middle += 0.05 {
			mass := func(centre float64) float64 { // upper tails keep their digits
				c := math.Abs(centre)
				return (math.Erfc((c-m/2)/math.Sqrt2) - math.Erfc((c+m/2)/math.Sqrt2)) / 2
			}
			got := 2*math.Log(mass(middle)) - math.Log(mass(middle-m)) - math.Log(mass(middle+m))
			if !(got >= bound-1e-9) {
				t.Errorf("M = %v around %v: %v is below %v", m, middle, got, bound)
			}
		}
	}
}

// Step 3: with κ = -log(1 - 1/V - 1/(8V²)) a step of Skellam scores is at most √(2 - 2√(1-κ)). That
// is at most (1 + c/V)/√V with the c that the accountant charges. The proof has c for all V from
// its value at 16; the test computes it over the range.
func TestSkellamExcess(t *testing.T) {
	for v := MinGaussianVariance; v < 1e7; v *= 1.01 {
		kappa := -math.Log1p(-1/v - 1/(8*v*v))
		square := 2 * kappa / (1 + math.Sqrt(1-kappa)) // 2 - 2√(1-κ) without its cancellation
		// √(1+x) - 1 = x/(1 + √(1+x)) for x = V·square - 1.
		x := v*square - 1
		if c := v * x / (1 + math.Sqrt(1+x)); !(c <= skellamExcess) || c < 0.43 {
			t.Fatalf("V = %v needs 1 + %v/V, charged is 1 + %v/V", v, c, skellamExcess)
		}
	}
}
