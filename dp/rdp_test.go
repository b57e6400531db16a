package dp

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/combin"
)

func TestRenyiOrders(t *testing.T) {
	if n := len(renyiOrders); n != 100+52+4 {
		t.Fatalf("%d orders, want 156", n)
	}
	whole := map[float64]bool{}
	for i, alpha := range renyiOrders {
		if i > 0 && alpha <= renyiOrders[i-1] {
			t.Errorf("order %v follows %v", alpha, renyiOrders[i-1])
		}
		whole[alpha] = alpha == math.Floor(alpha)
	}
	for i := 2; i <= 63; i++ {
		if !whole[float64(i)] {
			t.Errorf("integer order %d is missing: Skellam needs it exact", i)
		}
	}
}

// The values for a release with V = 25, D2 = D1 = 10, computed by hand from the formula; the
// Gaussian values are α·D2²/(2V).
func TestSkellamRenyiTable(t *testing.T) {
	for _, c := range []struct{ alpha, skellam, gaussian float64 }{
		{2, 4.144, 4}, {4, 8.304, 8}, {8, 16.6, 16}, {16, 32.6, 32},
	} {
		within(t, "Skellam", skellamRenyi(25, 10, 10, c.alpha), c.skellam, 1e-12)
		within(t, "Gaussian", gaussianRenyi(math.Sqrt(25)/10, c.alpha), c.gaussian, 1e-12)
	}
	for _, alpha := range []float64{1.5, 2.1, 1} {
		if d := skellamRenyi(25, 10, 10, alpha); !math.IsInf(d, 1) {
			t.Errorf("D at order %v is %v; there is no bound there", alpha, d)
		}
	}
}

// The bound holds for the divergence itself, summed over the table of the
// distribution: log Σ p(j)^α·p(j+d)^(1-α)/(α-1). Many coordinates with shift 1
// add up, with D2² = D1 = their number.
func TestSkellamRenyiIsABound(t *testing.T) {
	for _, v := range []float64{4, 25, 400, 1e4} {
		sigma := math.Sqrt(v)
		for _, alpha := range []float64{2, 3, 8, 16} {
			n := int(200 + (30+4*alpha)*sigma)
			table := newSkellamTable(v, n)
			for _, d := range []int{1, int(sigma), int(3 * sigma)} {
				sum := math.Inf(-1)
				for j := -n; j <= n-d; j++ {
					sum = logAdd(sum, table.hi[max(j, -j)]+table.lo[max(j, -j)]+(alpha-1)*table.loss(j, d))
				}
				divergence := sum / (alpha - 1)
				shift := float64(d)
				bound := skellamRenyi(v, shift, shift, alpha)
				if !(divergence <= bound*(1+1e-12)) {
					t.Errorf("V = %v, d = %d, α = %v: divergence %v is above the bound %v", v, d, alpha, divergence, bound)
				}
				if divergence < 0.8*bound && v >= 400 && d == int(sigma) {
					t.Errorf("V = %v, d = %d, α = %v: divergence %v is nowhere near the bound %v: wrong sum?", v, d, alpha, divergence, bound)
				}
				if d == 1 {
					const h = 100
					if bound := skellamRenyi(v, 10, h, alpha); !(h*divergence <= bound) {
						t.Errorf("V = %v, %d coordinates, α = %v: divergence %v is above the bound %v", v, h, alpha, h*divergence, bound)
					}
				}
			}
		}
	}
}

// subsampledByQuadrature integrates E_{N(0,z²)}[((1-q) + q·e^((2x-1)/2z²))^α] with gonum. For small
// divergences it integrates the excess over 1 in a form without cancellation: with r = q·(e^u - 1),
// (1+r)^α - 1 - α·r, because the last term has mean 0.
func subsampledByQuadrature(z, q, alpha float64) float64 {
	f := func(x float64) float64 {
		r := q * math.Expm1((2*x-1)/(2*z*z))
		density := math.Exp(-x*x/(2*z*z)) / (z * math.Sqrt(2*math.Pi))
		if r > 1e3 { // the power overflows on its own; the rest is nothing beside it
			return math.Exp(alpha*math.Log1p(r)-x*x/(2*z*z))/(z*math.Sqrt(2*math.Pi)) - density*(1+alpha*r)
		}
		excess := math.Expm1(alpha*math.Log1p(r)) - alpha*r
		if math.Abs(r) < 1e-4 { // Taylor, where the difference cancels
			excess = alpha * (alpha - 1) / 2 * r * r * (1 + (alpha-2)/3*r*(1+(alpha-3)/4*r))
		}
		return density * excess
	}
	sum, width := 0.0, z/4
	for lo := -14 * z; lo < alpha+14*z; lo += width {
		sum += quad.Fixed(f, lo, lo+width, 20, quad.Legendre{}, 0)
	}
	return math.Log1p(sum) / (alpha - 1)
}

func TestSubsampledGaussianAgainstQuadrature(t *testing.T) {
	for _, q := range []float64{1e-3, 0.01, 0.1, 0.5, 0.9} {
		for _, z := range []float64{0.7, 1, 3, 10} {
			for _, alpha := range []float64{1.1, 1.5, 2, 2.3, 5, 7.9, 20} {
				name := fmt.Sprintf("q=%v z=%v α=%v", q, z, alpha)
				want := subsampledByQuadrature(z, q, alpha)
				got := subsampledGaussianRenyi(z, q, alpha)
				// Never below (except for the quadrature's own 1e-9); above by no more than the
				// series promises for its cut-off and rounding.
				if !(got >= want*(1-1e-9)) {
					t.Errorf("%s: D = %v is below %v", name, got, want)
				}
				if excess := got - want; !(excess <= 1e-6*want+1.1e-12/(alpha-1)) {
					t.Errorf("%s: D = %v is %v above %v", name, got, excess, want)
				}
			}
		}
	}
}

// The integer sum against the definition term by term, in plain floats.
func TestLogMomentAgainstDefinition(t *testing.T) {
	for _, alpha := range []int{2, 3, 7, 12} {
		const z, q = 1.3, 0.2
		sum := 0.0
		for k := range alpha + 1 {
			sum += float64(combin.Binomial(alpha, k)) * math.Pow(1-q, float64(alpha-k)) * math.Pow(q, float64(k)) *
				math.Exp(float64(k*(k-1))/(2*z*z))
		}
		within(t, "log A", logMoment(z, q, alpha), math.Log(sum), 1e-12)
	}
}

// A rate of 1 is no sampling; a rate just below 1 gives nearly the same bound.
func TestSubsampledAtRateOne(t *testing.T) {
	for _, alpha := range []float64{1.1, 2, 4.5, 30} {
		want := gaussianRenyi(1.7, alpha)
		if got := subsampledGaussianRenyi(1.7, 1, alpha); got != want {
			t.Errorf("α = %v: D = %v at rate 1, want %v", alpha, got, want)
		}
		within(t, "D at rate 1-1e-9", subsampledGaussianRenyi(1.7, 1-1e-9, alpha), want, 1e-7)
	}
}
