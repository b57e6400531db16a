package dp

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"pgregory.net/rapid"
)

// within fails the test unless got equals want to the relative tolerance.
func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s = %.10g, want %.10g to %g relative", what, got, want, tolerance)
	}
}

// deltaByQuadrature computes δ(ε; μ) from the definition, as an integral of positive terms by
// gonum. With the standard normal score t of the output, the privacy loss minus ε is μ·(t-a), and δ
// = ∫_a φ(t)·(1 - e^(-μ(t-a))) dt.
func deltaByQuadrature(epsilon, mu float64) float64 {
	a := epsilon/mu - mu/2
	f := func(t float64) float64 {
		return math.Exp(-t*t/2) / math.Sqrt(2*math.Pi) * -math.Expm1(-mu*(t-a))
	}
	sum := 0.0
	for lo := max(a, -12); lo < max(a, 0)+12; lo += 0.5 {
		sum += quad.Fixed(f, lo, lo+0.5, 30, quad.Legendre{}, 0)
	}
	return sum
}

func TestGaussianDeltaAgainstQuadrature(t *testing.T) {
	for _, mu := range []float64{1e-6, 1e-3, 0.03, 0.0999, 0.1, 0.5, 1, 3, 10} {
		for _, score := range []float64{-4, -1, -0.01, 0, 0.3, 2, 5, 12, 30} { // a = ε/μ - μ/2
			epsilon := mu * (score + mu/2)
			if epsilon < 0 {
				continue
			}
			want := deltaByQuadrature(epsilon, mu)
			within(t, "δ", GaussianDelta(epsilon, mu), want, 1e-10)
		}
	}
}

// At ε = 0, δ is the total variation distance 2Φ(μ/2) - 1 = erf(μ/√8).
func TestGaussianDeltaAtZero(t *testing.T) {
	for _, mu := range []float64{1e-12, 1e-5, 0.05, 0.7, 4, 20} {
		within(t, "δ(0)", GaussianDelta(0, mu), math.Erf(mu/math.Sqrt(8)), 1e-13)
	}
}

// Far out, where e^ε overflows and e^-(a²/2) is nearly gone, δ stays a number.
func TestGaussianDeltaExtremes(t *testing.T) {
	if got := GaussianDelta(5000, 90); !(got > 0 && got < 1e-10) {
		t.Errorf("δ(5000; 90) = %v, want small and positive", got)
	}
	for _, c := range []struct{ epsilon, mu, want float64 }{
		{1, 0, 0}, {math.Inf(1), 3, 0}, {1, math.Inf(1), 1}, {1e6, 1, 0},
	} {
		if got := GaussianDelta(c.epsilon, c.mu); got != c.want {
			t.Errorf("δ(%v; %v) = %v, want %v", c.epsilon, c.mu, got, c.want)
		}
	}
	for _, got := range []float64{
		GaussianDelta(-1, 1), GaussianDelta(1, -1), GaussianDelta(math.NaN(), 1),
		GaussianEpsilon(-1, 0.1), GaussianMu(-1, 0.1),
	} {
		if !math.IsNaN(got) {
			t.Errorf("got %v outside of the domain, want NaN", got)
		}
	}
	if got := GaussianEpsilon(1, 0); !math.IsInf(got, 1) {
		t.Errorf("ε at δ = 0 is %v, want +Inf", got)
	}
	if got := GaussianMu(1, 0); got != 0 {
		t.Errorf("μ at δ = 0 is %v, want 0", got)
	}
}

// σ of one Gaussian of sensitivity 1 at δ = 1e-5: the published table of the
// analytic Gaussian mechanism.
func TestGaussianMuTable(t *testing.T) {
	for _, c := range []struct{ epsilon, sigma float64 }{
		{1, 3.7306}, {2, 1.9938}, {5, 0.89187}, {10, 0.49989}, {20, 0.29004},
	} {
		within(t, "σ", 1/GaussianMu(c.epsilon, 1e-5), c.sigma, 2e-5)
	}
}

// Both inverses land on the safe side and within rounding of the other.
func TestGaussianInverses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mu := math.Exp(rapid.Float64Range(-7, 3).Draw(t, "log mu"))
		delta := math.Exp(rapid.Float64Range(-60, -1).Draw(t, "log delta"))
		epsilon := GaussianEpsilon(mu, delta)
		if d := GaussianDelta(epsilon, mu); d > delta {
			t.Fatalf("δ(%v; %v) = %v is above %v", epsilon, mu, d, delta)
		}
		if epsilon == 0 {
			return
		}
		if d := GaussianDelta(epsilon*(1-1e-9), mu); d <= delta {
			t.Fatalf("ε = %v is not the smallest", epsilon)
		}
		if back := GaussianMu(epsilon, delta); math.Abs(back/mu-1) > 1e-9 {
			t.Fatalf("μ = %v came back as %v", mu, back)
		}
		if d := GaussianDelta(epsilon, GaussianMu(epsilon, delta)); d > delta {
			t.Fatalf("μ is not on the safe side: δ = %v is above %v", d, delta)
		}
	})
}

// erfcx and logHalfErfc against gonum's quadrature of
// erfcx(x) = (2/√π)·∫_0^∞ exp(-t² - 2xt) dt.
func TestErfcx(t *testing.T) {
	for _, x := range []float64{-0.5, 0, 0.3, 1, 4.9, 5.1, 12, 24.9, 25, 25.1, 60, 1e3} {
		scale := 1 / (1 + max(x, 0)) // where the integrand has decayed by e^-2 or so
		f := func(t float64) float64 { return math.Exp(-t*t-2*x*t) * 2 / math.SqrtPi }
		want := 0.0
		for i := range 40 {
			want += quad.Fixed(f, float64(i)*scale, float64(i+1)*scale, 40, quad.Legendre{}, 0)
		}
		within(t, "erfcx", erfcx(x), want, 1e-13)
		within(t, "log(erfc/2)", logHalfErfc(x), math.Log(want/2)-x*x, 1e-13)
	}
}
